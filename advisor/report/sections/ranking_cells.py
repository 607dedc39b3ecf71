"""Cells that every table of ranked arms has."""

from __future__ import annotations

from advisor.domain.check_events import Checked
from advisor.report.documents.workflow_entry import WorkflowEntry
from advisor.report.formatting.accuracy_text import accuracy_cell
from advisor.system.number_format import (
    MISSING,
    format_mebibytes,
    format_number,
    format_seconds,
)

#: Column heads of the criteria, in the order of every table.
CRITERION_HEADS = {
    "performance": "Perf",
    "productivity": "Prod",
    "portability": "Port",
    "input_flexibility": "Flex",
    "architecture_support": "Arch",
}
#: Column heads of `cost_cells`.
COST_HEADS = ("build s", "MiB", "error")


def rank_cell(entry: WorkflowEntry, *, is_unfit: bool = False) -> str:
    """Return the rank, with `!` for an arm that a constraint excludes.

    Figures that were measured on a machine that was not fit give no rank.
    """
    return MISSING if is_unfit else f"{entry.rank}{'!' if entry.failed_constraints else ''}"


def score_cell(entry: WorkflowEntry, *, is_unfit: bool = False) -> str:
    """Return the score, which is missing where the rank is."""
    return MISSING if is_unfit else format_number(entry.score, decimals=2)


def cost_cells(entry: WorkflowEntry) -> list[str]:
    """Return the seconds of the first build, the peak memory in MiB and the error."""
    return [
        format_seconds(entry.build_seconds.cold if entry.build_seconds else None),
        format_mebibytes(entry.memory_bytes.peak if entry.memory_bytes else None),
        accuracy_cell(checks_of(entry)),
    ]


def checks_of(entry: WorkflowEntry) -> tuple[Checked, ...]:
    """Return the comparisons of an arm's outputs, by batch size."""
    return entry.correctness.by_batch_size if entry.correctness else ()
