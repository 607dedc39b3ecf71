"""The words of an advice: why its trust is not higher, what to do next, what limits a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from advisor.decide.diagnosis import find_bound
from advisor.decide.trust import find_disturbances, judge_trust
from advisor.domain.accuracy import why_unchecked
from advisor.domain.answer import AdvisedAnswer, Answer
from advisor.domain.measurement import Bound, CallDiagnosis
from advisor.domain.plan import PLAIN_COMPILE
from advisor.domain.recommendation import Recommendation, TrustFault
from advisor.domain.results import Results
from advisor.domain.text import format_share, join_names, write_count, write_speedup

#: What lowers the trust by the results alone.
FAULTS: dict[TrustFault, str] = {
    "open": "the decision is open",
    "busy": "{busy}",
    "noise": "{noise}",
    "not-repeated": "no arm was repeated in a fresh process",
    "processes-assumed": "how much equal processes differ is {known}",
    "noise-unknown": "the noise floor is not known",
    "discarded": "{visits.discarded} of {visits.made} visits were discarded: the machine was busy"
    " or throttled",
    "stalled": "{stalled} took far longer than usual{cause}",
    "contradictory": "typical and fastest calls contradict each other: {contradictory}",
    "not-sustained": "called without a pause, {check.arms[1]} takes {check.sustained_ratio:.2f}"
    " times as long as {check.arms[0]}; in the race {check.burst_ratio:.2f} times",
    "shifted": "the speed changed during the measurement: {shifted}",
    "cold": "warm-up was not complete when timing began: {cold}",
}


def trust_reasons(answer: Answer) -> list[str]:
    """Return why the trust is not higher, also in the figures of a run without an answer."""
    decided, results, missing = AdvisedAnswer.of(answer), answer.results, answer.unmeasured_shapes
    if decided is not None:
        faults, gain = decided.advice.trust_faults, decided.advice.gain
    elif answer.ranking:
        gain = answer.ranking[0].speedup.value
        _, faults = judge_trust(results, None, missing, gain=gain)
    else:
        return ["Nothing was measured."]
    checks = [checked for each in results.measurements for checked in each.correctness]
    unchecked = {why_unchecked(each) for each in checks if each.accuracy_class == "unchecked"}
    of_answer: dict[TrustFault, list[str]] = {
        "imported": [answer.provenance],
        "not-measured": [f"{each.description} was not measured" for each in missing],
        "unchecked": sorted(unchecked),
        "gain-in-doubt": [f"{_doubt(decided, gain)}: {results.describe_noise()}"],
    }
    told = (of_answer[each] if each in of_answer else [_describe(each, results)] for each in faults)
    return [reason for reasons in told for reason in reasons]


def describe_disturbances(results: Results) -> list[str]:
    """Return why nothing can be trusted, else why the machine was not steady."""
    return results.unfitness or [_describe(each, results) for each in find_disturbances(results)]


def _doubt(decided: AdvisedAnswer | None, gain: float) -> str:
    if decided is not None and decided.is_baseline:
        return f"a gain of {gain:.2f}x by another arm may have been missed"
    if decided is not None and decided.decision.word == "CLEAR":
        return f"the choice is clear, the size of its gain of {gain:.2f}x is not"
    return f"the gain of {gain:.2f}x is in doubt"


def _describe(fault: TrustFault, results: Results) -> str:
    measured, times = results.measurements, results.fewest_process_differences
    counted = f"mostly assumed: it was measured {write_count(times, 'time')}"
    shifted = [
        f"{arm} by {format_share(cell.shift, signed=True)} at {cell.shape.description}"
        for arm, cell in results.cells
        if cell.shift
    ]
    contradictory = [each.arm for each in measured if any(c.fastest_calls for c in each.cells)]
    # On a busy machine they waited.
    cause = "" if find_disturbances(results) else ", probably because the stack compiled in them"
    return FAULTS[fault].format(
        busy=results.describe_unfit(),
        noise=results.describe_noise(),
        known=counted if times else "assumed",
        visits=results.visits,
        stalled=write_count(results.visits.stalled_calls, "timed call"),
        cause=cause,
        contradictory=", ".join(contradictory),
        check=results.sustained,
        shifted=", ".join(shifted),
        cold=", ".join(each.arm for each in measured if not each.steady),
    )


def describe_steps(answer: Answer) -> list[str]:
    """Return what to keep and to pin, and what makes the answer better founded.

    What runs later is then what was measured. An answer that is not clear, or has little evidence,
    is settled first. How an arm that is alone is compared, the headline says.
    """
    decided = AdvisedAnswer.of(answer)
    if decided is None:
        return []
    advice, advised, excluded = decided.advice, decided.advised.measured, answer.excluded
    here = "run p3-advisor on the machine that will serve, if it is not the one of run"
    pins = ", ".join(f"{name} {version}" for name, version in sorted(advised.versions.items()))
    pinned = [f"pin the versions that were measured: {pins}"] if pins else []
    keep = [*advice.deployment_steps, *pinned]
    unbuilt = [
        f"{build.arm} was {'stopped while it was' if build.started else 'not'} built, "
        f"so its speed is not known: {build.fix}"
        for build in answer.results.stopped_builds
        if build.fix and build.arm not in advice.decision.outstanding
    ]
    left_out = [
        f"to measure {each.title} too: {answer.question.ask_again(workflows=None)}"
        for each in excluded
        if each.arm == PLAIN_COMPILE and each.status == "excluded" and not each.fix
        # The same compiler with a static cache, for generated text, needs no such comparison.
        if not advised.workflow.startswith(PLAIN_COMPILE)
    ]
    others = [*unbuilt, *_installation_steps(answer, advice.not_installed)]
    is_clear = advice.decision.word not in {"LIKELY", "OPEN"}
    return [
        *([f"{here} {answer.run_id}"] if answer.provenance else []),
        *(_settling_steps(answer, advice) if len(answer.scores) > 1 else ()),
        *left_out,
        *([*keep, *others] if is_clear else [*others, *keep]),
    ]


def _settling_steps(answer: Answer, advice: Recommendation) -> Iterator[str]:
    decision, budget = advice.decision, advice.next_budget
    late = [each for each in answer.unmeasured if each.arm in decision.outstanding]
    again = answer.question.ask_again
    if late:
        fix = next(filter(None, (each.fix for each in late)), again(all_arms=True))
        yield f"to measure {join_names([each.title for each in late])} too: {fix}"
    is_noisy = decision.word == "OPEN" or advice.trust == "D"
    if is_noisy or (decision.word == "LIKELY" and decision.needed_repetitions):
        changes = {"wait_for_quiet": "5min"} if is_noisy or budget is None else {}
        changes |= {"budget": budget.name} if budget else {}
        yield f"to repeat the leaders: {again(**changes)}"


def _installation_steps(answer: Answer, not_installed: dict[str, str]) -> Iterator[str]:
    """Yield how to install what is missing: each command once, one for all environments."""
    others, together = dict[str | None, list[str]](), dict[str, str]()
    for each in answer.excluded:
        if environment := not_installed.get(each.arm):
            together[each.arm] = environment
        elif each.arm in not_installed:
            others.setdefault(each.fix, []).append(each.arm)
    for fix, arms in others.items():
        yield f"to measure {', '.join(arms)} too: {fix}"
    if together:
        names = " ".join(dict.fromkeys(together.values()))
        yield f"to measure {', '.join(together)} too: p3-advisor env create {names}"


class Limit(NamedTuple):
    """What limits a call of the baseline, in words."""

    name: str
    meaning: str
    #: What helps, and which other arms may help if no measured one does.
    helps: str
    otherwise: str


#: What each limit of eager PyTorch means.
LIMITS: Mapping[Bound, Limit] = {
    "launch": Limit(
        "launch-bound",
        "the GPU waits for kernel launches",
        "larger batches help",
        "and CUDA graphs may",
    ),
    "memory": Limit(
        "memory-bound",
        "reading the weights takes most of the time",
        "smaller weights help",
        "a better compiler hardly does",
    ),
    "compute": Limit(
        "compute-bound",
        "arithmetic takes most of the time",
        "a lower precision helps",
        "a better compiler hardly does",
    ),
}
#: A gain that is worth naming an arm for.
NOTABLE_GAIN = 1.1
#: The arm that spares eager PyTorch its launches, and what it gains at least where these limit.
GRAPH, LEAST_GAIN_OF_GRAPH = "pytorch-eager/cuda-graph", 1.25


def describe_bottlenecks(answer: Answer) -> list[str]:
    calls = answer.baseline.diagnosis if answer.baseline else ()
    return list(filter(None, (describe_bottleneck(answer, call) for call in calls)))


def describe_bottleneck(answer: Answer, call: CallDiagnosis) -> str:
    """Return what limits a call of the baseline, and which arm gains nevertheless.

    Empty where no limit is near, or where a graph of all launches hardly gains.
    """
    gains = {
        each.arm: cell.speedup
        for each in answer.results.measurements
        for cell in each.cells
        if each.arm != answer.results.baseline and cell.shape == call.shape and each.is_exact
    }
    # By the present rule: documents of early runs have the bounds of earlier ones.
    bound = find_bound(call.memory_share, call.compute_share, call.device_busy_share)
    limit, of_graph = LIMITS.get(bound), gains.get(GRAPH)
    is_refuted = of_graph is not None and of_graph.value < LEAST_GAIN_OF_GRAPH
    if limit is None or (bound == "launch" and is_refuted):
        return ""
    is_doubtful, otherwise = answer.results.is_unfit, limit.otherwise
    best = max(gains, key=lambda arm: gains[arm].value, default=None)
    if best is not None and gains[best].value >= NOTABLE_GAIN:
        low = gains[best].low
        if not is_doubtful or (low is not None and low > 1):
            gain = write_speedup(gains[best], unfit=is_doubtful, in_words=True)
            otherwise = f"and {answer.titles[best]} is {gain} as fast"
    what = f"{limit.name}: {limit.meaning}; {limit.helps}, {otherwise}"
    return f"At {call.shape.description}, {answer.baseline_title} is {what}."
