"""What adopting an arm costs, in one line: code, build, memory, and what repays the build."""

from __future__ import annotations

from advisor.domain.plan import BASELINE
from advisor.report.documents.document import RunDocument
from advisor.report.documents.workflow_entry import Adoption, WorkflowEntry
from advisor.system.number_format import format_mebibytes, format_number, format_seconds

EAGER_COST = "no build and no change of the code"


def cost_line(document: RunDocument, entry: WorkflowEntry) -> str:
    """Return what the arm of `entry` costs its user, next to the baseline.

    The baseline of servers costs something, too: its server is built and started.
    """
    if entry.arm == BASELINE:
        return EAGER_COST
    baseline = next((each for each in document.workflows if each.is_baseline), None)
    parts = [*_code(entry.adoption), *_build(entry), *_memory(entry, baseline)]
    advice = document.recommendation
    if advice is not None and advice.arm == entry.arm and advice.break_even_requests is not None:
        requests = _round(advice.break_even_requests)
        parts.append(f"repaid after {requests} request{'' if requests == '1' else 's'}")
    return "; ".join(parts)


def _round(requests: float) -> str:
    """Return a number of requests with two significant digits."""
    return format_number(float(f"{max(requests, 1):.2g}"), decimals=0)


def _code(adoption: Adoption | None) -> list[str]:
    if adoption is None:
        return []
    lines = adoption.lines_changed
    steps = [
        f"{lines} line{'' if lines == 1 else 's'} of code",
        *(["an export step"] if adoption.export_step else []),
        *(["an environment of its own"] if adoption.own_environment else []),
    ]
    *others, last = steps
    return [f"{', '.join(others)} and {last}" if others else last]


def _build(entry: WorkflowEntry) -> list[str]:
    build = entry.build_seconds
    if build is None:
        return []
    warm = f", {format_seconds(build.warm)} s from caches" if build.warm is not None else ""
    return [f"build {format_seconds(build.cold)} s{warm}"]


def _memory(entry: WorkflowEntry, baseline: WorkflowEntry | None) -> list[str]:
    ours = entry.memory_bytes
    if ours is None or ours.peak is None:
        return []
    against = ""
    if baseline is not None and baseline.arm != entry.arm:
        theirs = baseline.memory_bytes
        name = "eager" if baseline.id == BASELINE else baseline.id
        if theirs is not None and theirs.peak is not None:
            against = f" ({name} {format_mebibytes(theirs.peak)})"
    return [f"{format_mebibytes(ours.peak)} MiB{against}"]
