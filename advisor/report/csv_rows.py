"""The report as CSV: one row for each arm and batch size, one for an arm without a measurement; every column one kind of value. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from advisor.domain.measurement import Cell
from advisor.domain.question import CRITERIA
from advisor.report.document import RunDocument, WorkflowEntry
from advisor.report.table import device_name

COLUMNS = (
    *(
        "run_id",
        "created",
        "model",
        "dtype",
        "device",
        "workflow",
        "arm",
        "status",
        "evidence",
        "rank",
        "score",
    ),
    *(f"tier_{name}" for name in CRITERIA),
    *("batch_size", "seconds_median", "seconds_low", "seconds_high", "timed_calls", "processes"),
    *("throughput", "throughput_unit", "speedup", "speedup_low", "speedup_high", "tflops"),
    *(
        "cold_build_seconds",
        "warm_build_seconds",
        "peak_memory_bytes",
        "engaged_share",
        "correctness",
        "reason",
    ),
)
#: Signs with which a spreadsheet begins a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")

Value = str | int | float | None


def render(documents: Sequence[RunDocument]) -> str:
    """Return the rows of all documents under one head."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for document in documents:
        for entry in document.workflows:
            for cell in entry.cells or (None,):
                row = {
                    **about_run(document),
                    **about_arm(entry),
                    **(about_cell(cell) if cell else {}),
                }
                writer.writerow({name: harmless(value) for name, value in row.items()})
    return text.getvalue()


def harmless(value: Value) -> Value:
    """Return a text so that no spreadsheet takes it for a formula; numbers as they are."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def about_run(document: RunDocument) -> Mapping[str, Value]:
    """Return what is the same for all rows of a run."""
    question = document.question
    return {
        "run_id": document.run_id,
        "created": document.created,
        "model": question.model.name,
        "dtype": question.dtype,
        "device": device_name(document),
    }


def about_arm(entry: WorkflowEntry) -> Mapping[str, Value]:
    """Return what is the same for all batch sizes of an arm."""
    return {
        "workflow": entry.id,
        "arm": entry.arm,
        "status": entry.status,
        "evidence": entry.evidence,
        "rank": entry.rank,
        "score": entry.score,
        **{f"tier_{name}": rating.tier for name, rating in (entry.scores or {}).items()},
        "cold_build_seconds": entry.build_seconds.cold if entry.build_seconds else None,
        "warm_build_seconds": entry.build_seconds.warm if entry.build_seconds else None,
        "peak_memory_bytes": entry.memory_bytes.peak if entry.memory_bytes else None,
        "engaged_share": entry.engaged_share,
        "correctness": entry.correctness.verdict if entry.correctness else None,
        "reason": entry.reason,
    }


def about_cell(cell: Cell) -> Mapping[str, Value]:
    """Return the figures of one batch size."""
    return {
        "batch_size": cell.batch_size,
        "seconds_median": cell.seconds.median,
        "seconds_low": cell.seconds.low,
        "seconds_high": cell.seconds.high,
        "timed_calls": cell.seconds.samples,
        "processes": cell.processes,
        "throughput": cell.throughput.value,
        "throughput_unit": cell.throughput.unit,
        "speedup": cell.speedup.value,
        "speedup_low": cell.speedup.low,
        "speedup_high": cell.speedup.high,
        "tflops": cell.tflops,
    }
