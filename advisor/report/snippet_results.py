"""Say what the code shows that `verify` and `improve` have run."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.domain.answer import Answer
from advisor.domain.catalogue import BreakCause
from advisor.domain.snippet import Result, TriedVariant, Verification, shows_nothing
from advisor.domain.text import format_interval, format_milliseconds, is_unknown, write_speedup
from advisor.report.advised_arm import DOUBTS, describe_variant
from advisor.report.formatting import PLACE, describe_problem

RESULT_TEXTS: dict[Result, str] = {
    "holds": "the snippet reaches the measured speed-up",
    "faster": "the snippet is faster than measured",
    "slower": "the snippet does not reach the measured speed-up",
    "wrong": "the snippet returns wrong outputs",
    "undecided": "the times do not decide whether the snippet reaches the measured speed-up",
}


def render_verification(verified: Verification) -> str:
    baseline, result = verified.baseline, RESULT_TEXTS[verified.result]
    if verified.result == "holds" and verified.speedup.is_range():
        result = "the snippet is within the range that was measured"
    lines = [f"{verified.arm}, run {verified.run_id}, {verified.shape.description}: {result}."]
    if verified.speedup_reached is not None:
        own, other = map(format_milliseconds, (verified.seconds_reached, verified.baseline_seconds))
        unfit = bool(verified.doubt)
        shown = write_speedup(verified.speedup_reached, unfit=unfit, interval=True, in_words=True)
        is_lost = is_unknown(verified.speedup_reached)
        reached = "how fast is not known" if is_lost else f"{shown} as fast as {baseline}"
        times = f"{own} ms a call instead of {other} ms"
        if verified.doubt:
            times = DOUBTS[verified.doubt]
        lines.append(f"  {reached}: {times}; the run measured {format_interval(verified.speedup)}")
    agree = f"agree with those of {baseline}"
    compared = agree if verified.compared else "not compared: they differ from call to call"
    lines.append(f"  outputs: {verified.problem or compared}")
    changed = ", ".join(f"{name} is now {now}" for name, now in verified.changed_versions.items())
    check = verified.quiet_check
    busy = "; ".join(describe_problem(each, check.activity) for each in check.problems)
    further = {
        "changed since: ": changed,
        "the machine was busy before, so the speed is uncertain: ": busy,
    }
    lines += [f"  {head}{text}" for head, text in further.items() if text]
    lines += [] if verified.holds else [f"Next: {_next_step(verified)}"]
    return "\n".join(lines) + "\n"


def _next_step(verified: Verification) -> str:
    size = verified.shape.batch_size
    again = f"p3-advisor verify {verified.run_id} {verified.arm} --batch-size {size}"
    if verified.changed_versions:
        return (
            "install the measured versions, which recipe pins, or measure the present ones:"
            " p3-advisor recommend"
        )
    if verified.result == "wrong":
        return "do not use its outputs; measure again, which checks them: p3-advisor recommend"
    if shows_nothing(verified.speedup, verified.tolerance):
        resume = f"p3-advisor resume {verified.run_id} --wait-for-quiet 5min"
        return f"measure the speed-up itself again: {resume}; without its builds, ask again"
    if verified.quiet_check.problems or verified.doubt == "busy":
        return f"stop the other work on this machine, then {again}"
    stays = "undecided" if verified.result == "undecided" else "slower"
    return f"time it for longer: {again} --seconds 30; if it stays {stays}, p3-advisor recommend"


def render_breaks(title: str, causes: Mapping[str, BreakCause | None]) -> str:
    """Return where the graph of an arm breaks, why, and what mends it; empty if it does not."""
    unknown = "what one costs is not known unless a setting mends it"
    lines = [f"Graph breaks of {title}; {unknown}:"] if causes else []
    for reason, cause in causes.items():
        place, colon, _ = reason.partition(": ")
        where = f"{place}: " if colon and PLACE.fullmatch(place) else ""
        setting = "a setting may mend it" if cause and cause.lines else ""
        told = "; ".join(filter(None, (cause.cause, setting, cause.advice))) if cause else ""
        lines.append(f"  {where}{told}" if cause else f"  {reason}")
    return "".join(f"{line}\n" for line in lines)


def render_tried(tried: TriedVariant, answer: Answer) -> str:
    """Return what the lines gain, with the lines where they are faster for certain."""
    sentence = describe_variant(tried.variant, tried.arm, answer)
    low = tried.variant.speedup.low if tried.variant.speedup else None
    is_faster = tried.variant.is_gain and low is not None and low > 1
    return f"{sentence}\n{tried.diff}\n" if is_faster else f"{sentence}\n"
