"""What adopting an arm costs, in one line: code, build, memory, and what repays the build."""

from __future__ import annotations

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import Measurement
from advisor.domain.plan import BASELINE
from advisor.domain.scores import Adoption
from advisor.system.number_format import format_mebibytes, format_number, format_seconds

EAGER_COST = "no build and no change of the code"


def cost_line(answer: Answer, arm: RankedArm) -> str:
    """Return what an arm costs its user, next to the baseline.

    The baseline of servers costs something, too: its server is built and started.
    """
    scored, measured = arm
    if scored.arm == BASELINE:
        return EAGER_COST
    parts = _code(scored.adoption)
    if measured is not None:
        parts += [_build(measured), *_memory(measured, answer.baseline)]
    advice = answer.recommendation
    if advice is not None and advice.arm == scored.arm and advice.break_even_requests is not None:
        requests = _round(advice.break_even_requests)
        parts.append(f"repaid after {requests} request{'' if requests == '1' else 's'}")
    return "; ".join(parts)


def _round(requests: float) -> str:
    """Return a number of requests with two significant digits."""
    return format_number(float(f"{max(requests, 1):.2g}"), decimals=0)


def _code(adoption: Adoption) -> list[str]:
    lines = adoption.lines_changed
    steps = [
        f"{lines} line{'' if lines == 1 else 's'} of code",
        *(["an export step"] if adoption.export_step else []),
        *(["an environment of its own"] if adoption.own_environment else []),
    ]
    *others, last = steps
    return [f"{', '.join(others)} and {last}" if others else last]


def _build(measured: Measurement) -> str:
    build = measured.build_seconds
    warm = f", {format_seconds(build.warm)} s from caches" if build.warm is not None else ""
    return f"build {format_seconds(build.cold)} s{warm}"


def _memory(measured: Measurement, baseline: Measurement | None) -> list[str]:
    peak = measured.memory_bytes.peak
    if peak is None:
        return []
    against = ""
    if baseline is not None and baseline.arm != measured.arm:
        name = "eager" if baseline.workflow == BASELINE else baseline.workflow
        if baseline.memory_bytes.peak is not None:
            against = f" ({name} {format_mebibytes(baseline.memory_bytes.peak)})"
    return [f"{format_mebibytes(peak)} MiB{against}"]
