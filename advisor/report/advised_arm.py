"""What the headline says of the advised arm beside its speed: start, load, accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.decide.diagnosis import find_lower_precision
from advisor.decide.rivals import find_faster_arm
from advisor.domain import text
from advisor.domain.accuracy import why_unchecked, worst_check
from advisor.domain.answer import AdvisedAnswer, Answer, RankedArm
from advisor.domain.machine import Doubt
from advisor.domain.measurement import COLD, Variant
from advisor.domain.model import has_random_weights
from advisor.domain.plan import EAGER
from advisor.domain.serving import AskedRate, ServedArm
from probes.accuracy import Checked, Fault
from probes.facts import FREED_MEMORY

#: Smaller relative errors are written with an exponent.
LEAST_PERCENT = 1e-3
EAGER_TITLE = "eager PyTorch"
#: What else rounding does not explain, by the fault that keeps outputs from being exact.
BEYOND_ROUNDING: Mapping[Fault, str] = {
    "row-error": ", and more in a single row than rounding explains",
    "typical-error": ", and more in most elements than rounding explains",
}
#: The line for a GPU that has TF32, which PyTorch uses in convolutions by default.
WITHOUT_TF32 = "TF32 was off, also in convolutions; p3-advisor improve tries it."
#: States that a line names.
MOST_STATES = 3
#: What is said of a CPU whose C library kept freed memory where no code of the answer has the line.
MEMORY_KEPT = (
    "Eager was timed after bytearray(31 * 2**20), which keeps memory that a call frees for the "
    "next one: without that line yours may be slower."
)
DOUBTS: dict[Doubt, str] = {
    "busy": "the machine was busy",
    "contradictory": "typical and fastest calls contradict each other",
}


def describe_start(decided: AdvisedAnswer) -> list[str]:
    fastest, baseline = decided.advised.measured.fastest_start, decided.answer.baseline
    if fastest is None:
        return []
    cold = next((each for each in decided.advised.measured.starts if each.way == COLD), fastest)
    line = f"Start: {text.format_seconds(cold.seconds)} s cold"
    if fastest != cold:
        size, lines = fastest.shipped_bytes, fastest.lines
        costs = text.write_count(lines, "line")
        costs = f"{text.format_mebibytes(size, 2)} MiB, {costs}" if size else costs
        line += f", {text.format_seconds(fastest.seconds)} s with {fastest.title} ({costs})"
    eager = baseline.fastest_start if baseline else None
    if eager is not None and baseline != decided.advised.measured:
        line += f"; {decided.answer.baseline_title} {text.format_seconds(eager.seconds)} s"
    return [f"{line}."]


def describe_variants(answer: Answer) -> list[str]:
    return [
        describe_variant(each, one.arm, answer)
        for one in answer.results.measurements
        for each in one.variants
        if each.is_gain
    ]


def describe_variant(variant: Variant, arm: str, answer: Answer) -> str:
    is_advised = answer.advised is not None and answer.advised.arm == arm
    code = f"With {variant.title} {'the same code' if is_advised else answer.titles[arm]}"
    speed = variant.speedup
    if speed is None:
        return f"{code} fails: {variant.failure}."
    compared = f"as {answer.baseline_title} in float32"
    outputs = f"error {variant.error:.0e}" if variant.error is not None else "outputs not compared"
    if variant.graph_breaks is not None:
        before = len(answer.results.by_arm[arm].facts.get("graph_breaks", {}))
        breaks = text.write_count(len(variant.graph_breaks), "graph break")
        compared, outputs = "as without", f"{breaks} instead of {before}, outputs as before"
    speed_is = "has an unknown speed"
    if not text.is_unknown(speed):
        gain = text.write_speedup(speed, unfit=bool(variant.doubt), interval=True, in_words=True)
        speed_is = f"is {gain} as fast {compared}"
    doubt = f"; {DOUBTS[variant.doubt]}" if variant.doubt else ""
    return f"{code} {speed_is}{doubt}; {outputs}."


def keeps_memory(answer: Answer) -> bool:
    """Return whether the C library kept freed memory, for the baseline too."""
    return answer.baseline is not None and FREED_MEMORY in answer.baseline.settings


def describe_adjustments(answer: Answer) -> list[str]:
    """Return what was done about what the model and the C library change in its process."""
    baseline = answer.baseline
    adjusted = baseline.adjusted if baseline else {}
    told = "; ".join(f"{name} {done}" for name, done in adjusted.items())
    lines = [f"For equal conditions: {told}."] if told else []
    if keeps_memory(answer) and answer.advised and answer.advised.arm == EAGER:
        lines.append(MEMORY_KEPT)
    return lines


def describe_reference(answer: Answer) -> list[str]:
    """Say that eager PyTorch is its own reference, whose rounding can only be estimated."""
    own = _own_reference(answer)
    itself = f"{EAGER_TITLE} itself in {own}: no higher precision was possible"
    return [f"Errors are differences from {itself}."] if own else []


def _own_reference(answer: Answer) -> str:
    """Return the precision in which eager PyTorch is its own reference; empty if it is not."""
    checks = answer.baseline.correctness if answer.baseline else ()
    return next((each.reference for each in checks if each.rmse == 0 and each.rmse_eager), "")


def describe_changed_states(arms: Sequence[RankedArm]) -> list[str]:
    checks = [check for each in arms for check in each.measured.correctness]
    names = dict.fromkeys(name for each in checks for name in each.accuracy.changed_states)
    if not names:
        return []
    named = text.name_some([*names], MOST_STATES)
    changed = f"Each call also changes: {named}. Outputs of equal calls stay the same."
    return [f"{changed} Compiled and exported programs may leave that out, and be faster for it."]


def describe_constraints(decided: AdvisedAnswer) -> list[str]:
    """Return which constraints the advised arm meets by a figure whose spread crosses the bound."""
    found = [
        f"{text.describe_spread(each, spread)}, and the limit {each.bound} lies within"
        for each in decided.answer.question.constraints
        if (spread := each.crossed_by(decided.advised.measured))
    ]
    return [f"It may miss what is required: {'; '.join(found)}."] if found else []


def describe_quantised(decided: AdvisedAnswer) -> list[str]:
    scored, measured = decided.advised
    if scored.weight_format is None:
        return []
    worst = worst_check(measured.correctness)
    error = (
        f" ({_describe_error(worst, decided.answer)})"
        if worst and worst.accuracy_class == "close"
        else ""
    )
    native = _alternative(decided, decided.advice.best_native)
    instead = f" Best with unquantised weights: {native}." if native else ""
    random = (
        " These weights are random: measure the loss with trained ones."
        if has_random_weights(decided.answer.question.model)
        else ""
    )
    return [f"Its weights are quantised to {scored.weight_format}{error}.{instead}{random}"]


def describe_precision(decided: AdvisedAnswer) -> list[str]:
    """Name the arms of lower precision, except a faster one, whose line has its precision."""
    faster = find_faster_arm(decided)
    lower = [
        decided.answer.titles[arm]
        for arm in find_lower_precision(decided.answer.results.measurements)
        # Quantised ones say how they are.
        if decided.arms[arm].weight_format is None and (faster is None or arm != faster.scored.arm)
    ]
    than = f"Probably in a lower precision than {decided.answer.question.dtype}"
    lines = [f"{than}: {text.join_names(lower)}."] if lower else []
    if decided.advice.can_try_tf32:
        lines.append(WITHOUT_TF32)
    return [" ".join(lines)] if lines else []


def _alternative(decided: AdvisedAnswer, arm: str | None) -> str:
    if not arm or decided.answer.results.is_unfit:
        return decided.answer.titles[arm] if arm else ""
    return f"{decided.answer.titles[arm]} ({decided.arms[arm].speedup:.2f}x)"


def describe_accuracy(decided: AdvisedAnswer) -> list[str]:
    worst = worst_check(decided.advised.measured.correctness)
    if worst is None or worst.accuracy_class == "exact":
        return []
    exact = _alternative(decided, decided.advice.best_exact)
    if worst.accuracy_class == "unchecked":
        if decided.is_baseline:
            return []  # the trust has the reason
        instead = f" Best with outputs that were all checked: {exact}." if exact else ""
        accuracy = worst.accuracy
        none = sum(accuracy.uncompared.values()) >= accuracy.outputs
        checked = "None of its outputs could be" if none else "Not all of its outputs were"
        return [f"{checked} checked: {why_unchecked(worst)}.{instead}"]
    if decided.advised.scored.weight_format is not None:
        return []  # the line of the weights has the error
    instead = f"Best with exact outputs: {exact}." if exact else "No exact arm was measured."
    reason = BEYOND_ROUNDING.get(worst.accuracy.fault, "")
    error = _describe_error(worst, decided.answer)
    return [f"Its outputs are close, not exact: {error}{reason}. {instead}"]


def _describe_error(checked: Checked, answer: Answer) -> str:
    found = checked.accuracy
    if found.error is None:
        return "their error is not known"
    if found.kl_mean is None and found.error >= LEAST_PERCENT:
        size = f"relative error {text.format_share(found.error, 1)}"
    elif found.kl_mean is None:
        size = f"relative error {found.error:.1e}"
    else:
        size = f"divergence of {found.error:.1e} nats a token"
    ratio = text.format_number(found.ratio_to_eager, digits=2)
    than = "what rounding alone changes" if _own_reference(answer) else f"that of {EAGER_TITLE}"
    return f"{size}, {ratio} times {than}" if found.ratio_to_eager else size


def describe_goodput(decided: AdvisedAnswer) -> list[str]:
    load, served = decided.answer.question.load, decided.answer.served.get(decided.advised.arm)
    if load is None or served is None or served.goodput is None:
        return []
    least = "at least " if served.stopped_early(load.share) else ""
    sustained = (
        f"It serves {least}"
        f"{text.format_interval(served.goodput, unit=' requests/s', decimals=None)}, "
        f"{text.format_number(served.tokens_per_second, decimals=0)} tokens/s, with {load.limits}."
    )
    failed = f" {served.failed} of {served.requests} requests failed." if served.failed else ""
    return [sustained + failed, *_describe_asked(served, load.share)]


def _describe_asked(served: ServedArm, share: float) -> list[str]:
    asked = served.asked
    if asked is None:
        return []
    count = text.format_bounded(asked.servers, asked.fewest_servers, asked.most_servers)
    price = f", {text.format_number(asked.price_per_hour)} per hour" if asked.price_per_hour else ""
    need = {
        "met": f"One server is enough for the asked {asked.rate:g} requests/s",
        "not-met": f"The asked {asked.rate:g} requests/s need {count} such servers",
        "open": f"It is not settled whether one server is enough for the asked {asked.rate:g} "
        f"requests/s; they need {count}",
    }[asked.verdict]
    return [f"{need}{price}. {_asked_latency(asked, share)}"]


def _asked_latency(asked: AskedRate, share: float) -> str:
    level = asked.level
    if level is None or level.ttft_seconds is None:
        each = text.format_number(asked.rate / asked.servers)
        return f"The latency at {each} requests/s each was not measured."
    itl = (
        f", {text.format_milliseconds(level.itl_seconds[1])} ms between tokens"
        if level.itl_seconds
        else ""
    )
    rate, met = text.format_number(level.rate), text.format_share(level.met)
    return (
        f"At {rate} requests/s each, {met} are within the limits "
        f"({share * 100:g} % must be); 95 % have the first token within "
        f"{text.format_milliseconds(level.ttft_seconds[1])} ms{itl}."
    )
