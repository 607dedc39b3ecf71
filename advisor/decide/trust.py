"""How good the evidence behind a decision is: a grade from A to D with its reasons. Pure.

A: the decision is CLEAR or LIKELY, its leaders were repeated in fresh processes, the intervals
include what differs between processes, the machine was steady, and the outputs were compared. B:
one of the last four is missing. C: more of them are missing. D: the decision is OPEN, a batch size
was not measured, or the machine was too busy or too noisy.

Also why an arm is advised, and what to do next, as sentences with their figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.decide.intervals import MIN_PROCESSES
from advisor.domain.accuracy import why_unchecked
from advisor.domain.answer import UnmeasuredArm
from advisor.domain.constraints import Priorities
from advisor.domain.measurement import Measurement
from advisor.domain.question import Budget
from advisor.domain.recommendation import (
    ConstraintEffect,
    DecisionWord,
    HorizonBest,
    MemoryFit,
    Trust,
)
from advisor.domain.results import Rating, Results, ScoredArm, StoppedBuild
from advisor.domain.rubric import LETTERS, name_fact
from advisor.domain.workflow import Workflow
from advisor.system.number_format import format_fact, format_share
from probes.wire.shape import Shape

#: Difference between two equal workers above which the machine does not count as steady, and above
#: which nothing that was measured can be trusted.
STEADY_NOISE, UNFIT_NOISE = 0.05, 0.5
#: Shares of the visits, of discarded ones and of those made on a busy machine, above which the
#: machine does not count as steady.
MOST_STEADY_DISCARDED, MOST_STEADY_UNFIT = 0.05, 0.05
#: Share of visits made on a busy machine above which nothing that was measured can be trusted.
MOST_UNFIT = 0.5


def grade(
    results: Results, decision: DecisionWord | None, missing: Sequence[Shape] = ()
) -> tuple[Trust, tuple[str, ...]]:
    """Return the trust and what keeps it from being higher.

    `missing` has the shapes without a race. The reasons that alone cause a D come first.
    """
    repeated, between, unsteady = (
        _missing_repetitions(results),
        _missing_process_intervals(results),
        _find_unsteadiness(results),
    )
    unchecked = _find_unchecked(results)
    decisive = (
        *(("the decision is open",) if decision == "OPEN" else ()),
        *_missing_shapes(missing),
        *_find_unfitness(results),
    )
    others = (*unchecked, *repeated, *between, *unsteady)
    reasons = (*decisive, *(each for each in others if each not in decisive))
    if decisive:
        return "D", reasons
    faults = sum(bool(each) for each in (repeated, between, unsteady, unchecked))
    if faults == 0:
        return "A", reasons
    return ("B" if faults == 1 else "C"), reasons


def is_unfit(results: Results) -> bool:
    """Check whether most visits were made on a busy machine, or equal workers differ by half."""
    return bool(_find_unfitness(results))


def is_busy(results: Results) -> bool:
    """Check whether most visits were made on a busy machine."""
    return results.visits.unfit > MOST_UNFIT * max(results.visits.made, 1)


def _find_unfitness(results: Results) -> list[str]:
    """Return why nothing that was measured can be trusted."""
    reasons = []
    if is_busy(results):
        reasons.append(_describe_unfit_visits(results))
    if (results.noise_floor or 0.0) > UNFIT_NOISE:
        reasons.append(_describe_noise(results.noise_floor or 0.0))
    return reasons


def describe_unfitness(results: Results) -> str:
    """Return in a few words why the machine was not fit to measure on."""
    if is_busy(results):
        return "the machine was busy"
    difference = format_share(results.noise_floor)
    return f"the machine was unsteady, equal workers differed by up to {difference}"


def _describe_unfit_visits(results: Results) -> str:
    made = max(results.visits.made, 1)
    return f"the machine was busy or throttled during {results.visits.unfit} of {made} visits"


def _describe_noise(noise: float) -> str:
    return f"the baseline and its duplicate may differ by {format_share(noise, 1)}"


def _find_unchecked(results: Results) -> list[str]:
    """Return why outputs were not compared."""
    found = {
        why_unchecked(checked)
        for entry in results.measurements
        for checked in entry.correctness
        if checked.accuracy_class == "unchecked"
    }
    return sorted(found)


def _missing_shapes(missing: Sequence[Shape]) -> list[str]:
    if not missing:
        return []
    if len(missing) == 1:
        return [f"{missing[0].description} was not measured"]
    kind = "shapes" if missing[0].lengths else "batch sizes"
    return [f"{kind} {', '.join(map(str, missing))} were not measured"]


def _missing_repetitions(results: Results) -> list[str]:
    if results.repeats:
        return []
    return ["no arm was repeated in a fresh process"]


def _missing_process_intervals(results: Results) -> list[str]:
    processes = [cell.processes for entry in results.measurements for cell in entry.cells]
    if max(processes, default=0) >= MIN_PROCESSES:
        return []
    variance = "the variance between processes is mostly assumed"
    return [f"no arm ran in {MIN_PROCESSES} or more processes: {variance}"]


def _find_unsteadiness(results: Results) -> list[str]:
    """Return the signs that the machine or the stacks were not steady while they were measured."""
    reasons = []
    if results.noise_floor is None:
        reasons.append("the noise floor is not known")
    elif results.noise_floor > STEADY_NOISE:
        reasons.append(_describe_noise(results.noise_floor))
    made, visits = max(results.visits.made, 1), results.visits
    if visits.discarded / made > MOST_STEADY_DISCARDED:
        reasons.append(
            f"{visits.discarded} of {made} visits were discarded: the machine was busy or throttled"
        )
    if visits.unfit / made > MOST_STEADY_UNFIT:
        reasons.append(_describe_unfit_visits(results))
    if visits.stalled_calls:
        reasons.append(
            f"{visits.stalled_calls} timed calls took far longer than usual, "
            "probably because the stack compiled in them"
        )
    contradicted = [
        entry.arm
        for entry in results.measurements
        if any(cell.fastest_calls for cell in entry.cells)
    ]
    if contradicted:
        reasons.append(
            f"typical and fastest calls contradict each other: {', '.join(contradicted)}"
        )
    check = results.sustained
    if check is not None and not check.agrees:
        one, two = check.arms
        reasons.append(
            f"called without a pause, {two} takes {check.sustained_ratio:.2f} times as long as "
            f"{one}; in the race {check.burst_ratio:.2f} times"
        )
    return [*reasons, *_find_drift(results)]


def _find_drift(results: Results) -> list[str]:
    reasons = []
    changed = [
        f"{entry.arm} by {format_share(cell.shift, signed=True)} at {cell.shape.description}"
        for entry in results.measurements
        for cell in entry.cells
        if cell.shift
    ]
    if changed:
        reasons.append(f"the speed changed during the measurement: {', '.join(changed)}")
    unsettled = [entry.arm for entry in results.measurements if not entry.steady]
    if unsettled:
        reasons.append(f"warm-up was not complete when timing began: {', '.join(unsettled)}")
    return reasons


#: The measured peak may be too low by less than this factor.
ABOVE_PEAK = 1.2


def give_reasons(
    winner: ScoredArm,
    measurement: Measurement,
    results: Results,
    priorities: Priorities,
    ties: Sequence[str],
    missing: Sequence[Shape] = (),
) -> list[str]:
    """Return why the advised arm is advised."""
    speedup = measurement.speedup
    factor = (
        f"between {speedup.low:.2f} and {speedup.high:.2f} times"
        if is_unfit(results) and speedup.low is not None and speedup.high is not None
        else f"{speedup.value:.2f}x"
    )
    bounds = (
        f" (95 %: {speedup.low:.2f} to {speedup.high:.2f})"
        if speedup.low is not None and speedup.high is not None and not is_unfit(results)
        else ""
    )
    reasons = [f"it scores {winner.score:.2f} with the weights {priorities.describe()}"]
    if winner.arm != results.baseline and results.serving is not None:
        reasons.append(
            f"it sustains {speedup.value:.2f}x the request rate of {results.baseline}{bounds}"
        )
    elif winner.arm != results.baseline:
        has_lengths = any(race.shape.lengths for race in results.races)
        kind = "shapes" if has_lengths else "batch sizes"
        over = f"the {kind} that were measured" if missing else f"the {kind}"
        reasons.append(
            f"it is {factor} as fast as {results.baseline}{bounds}, geometric mean over {over}"
        )
    else:
        reasons.append("no other measured workflow gains more than it costs in the other criteria")
    reasons += [describe_rating(name, rating) for name, rating in winner.ratings.items()]
    if ties:
        reasons.append(f"tie: {', '.join(ties)} score the same, and their speeds do not differ")
    return reasons


def describe_rating(criterion: str, rating: Rating) -> str:
    """Return the letter of a criterion with the fact that limits it, and what the letter means."""
    return f"{name_grade(criterion, rating)}: {rating.why} ({rating.evidence})"


def name_grade(criterion: str, rating: Rating) -> str:
    """Return `portability A (3.00; vendors: 8)`."""
    name, fact = criterion.replace("_", " "), name_fact(rating.fact)
    return (
        f"{name} {LETTERS[rating.tier]} ({rating.grade:.2f}; {fact}: {format_fact(rating.value)})"
    )


def explain_horizon(horizons: Sequence[HorizonBest], requests: int | None) -> list[str]:
    """Return which arm serves the asked number of requests first, its build included."""
    return [
        f"over {requests:,} requests at {entry.shape.description}, "
        f"{entry.arm} finishes first, its build included"
        for entry in horizons
        if entry.requests == requests
    ]


def explain_constraints(effects: Sequence[ConstraintEffect]) -> list[str]:
    """Return the constraints that change the answer."""
    return [
        f"without {effect.constraint} the answer would be {effect.without}"
        for effect in effects
        if effect.changes_answer
    ]


def explain_memory(memory: Sequence[MemoryFit], winner: str) -> list[str]:
    """Return the arms whose builds were short of device memory."""
    return [
        f"{fit.arm} reached {format_share(fit.share)} of the GPU's memory"
        + (" with its build: it may serve, but leaves little free" if fit.arm == winner else "")
        + "; compilers skip strategies when memory is short, so with more memory it might be faster"
        for fit in memory
        if fit.short
    ]


def explain_precision(measurements: Sequence[Measurement], dtype: str) -> list[str]:
    """Return the arms that probably compute in a lower precision than `dtype`.

    Their outputs are less exact, and they exceed the peak that was measured in `dtype`. TensorRT
    for RTX, for example, rounds float32 products to TF32 although that is switched off.
    """
    shares = {
        each.arm: max((call.compute_share or 0.0 for call in each.diagnosis), default=0.0)
        for each in measurements
        if any(checked.accuracy_class == "close" for checked in each.correctness)
    }
    return [
        f"{arm} reaches {format_share(share)} of the arithmetic peak of {dtype}, and its outputs "
        "are less exact: it probably computes in a lower precision"
        for arm, share in shares.items()
        if share > ABOVE_PEAK
    ]


def give_deployment_steps(measurement: Measurement, keep: Sequence[str]) -> list[str]:
    """Return what to keep and to pin, so that what runs later is what was measured."""
    build = measurement.build_seconds
    gain = (
        f" (here {build.warm:.1f} s instead of {build.cold:.1f} s)"
        if build.warm is not None and build.warm < build.cold
        else ""
    )
    pins = ", ".join(f"{name} {version}" for name, version in sorted(measurement.versions.items()))
    return [
        *(f"{step}{gain}" for step in keep),
        *([f"pin the versions that were measured: {pins}"] if pins else []),
    ]


def give_next_steps(
    trust: Trust,
    excluded: Sequence[UnmeasuredArm],
    stopped: Sequence[StoppedBuild] = (),
    workflows: Sequence[Workflow] = (),
    budget: Budget | None = None,
) -> list[str]:
    """Return what makes the answer better founded; `budget` is that of a further run."""
    steps = [
        f"{build.arm} was {'stopped while it was' if build.started else 'not'} built, "
        f"so its speed is not known: {build.fix}"
        for build in stopped
        if build.fix
    ]
    if trust == "D":
        longer = f" --budget {budget.name}" if budget else ""
        steps.append(f"measure again with --wait-for-quiet 5min{longer}")
    return [*steps, *_installation_steps(excluded, workflows)]


def _installation_steps(
    excluded: Sequence[UnmeasuredArm], workflows: Sequence[Workflow]
) -> list[str]:
    """Return how to install what is missing; one command creates all environments."""
    missing = [entry for entry in excluded if entry.status == "not-installed" and entry.fix]
    environments = {
        each.id: each.environment_name for each in workflows if each.environment.kind == "own"
    }
    together = [entry.workflow for entry in missing if entry.workflow in environments]
    others = [entry for entry in missing if entry.workflow not in environments]
    steps = [f"to measure {entry.workflow} too: {entry.fix}" for entry in others]
    if together:
        names = " ".join(dict.fromkeys(environments[workflow] for workflow in together))
        steps.append(f"to measure {', '.join(together)} too: p3-advisor env create {names}")
    return steps
