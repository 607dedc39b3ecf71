"""Render runs as CSV: a row for each arm and batch size, or for an arm without a measurement."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.measurement import CallPercentiles, Cell, GenerationMetrics
from advisor.domain.priorities import CRITERIA
from advisor.report.documents.document import RunDocument
from advisor.report.documents.machine_fitness import was_machine_unfit
from advisor.report.documents.workflow_entry import WorkflowEntry

RUN_COLUMNS = ("run_id", "created", "model", "dtype", "device", "decision", "trust")
SPEED_COLUMNS = (
    "batch_size",
    "seconds_median",
    "seconds_low",
    "seconds_high",
    "timed_calls",
    "processes",
    "throughput",
    "throughput_unit",
    "speedup",
    "speedup_low",
    "speedup_high",
    "tflops",
    *(f"seconds_{name}" for name in CallPercentiles.__struct_fields__),
)
GENERATION_COLUMNS = (
    "ttft_seconds",
    "itl_seconds",
    "tokens_per_second_per_user",
    "cache_bytes",
    "mbu",
    "mfu",
    "latency_mismatch",
)
#: Figures of `advisor.domain.accuracy.Accuracy`.
ACCURACY_COLUMNS = (
    "relative_error",
    "relative_error_eager",
    "ratio_to_eager",
    "cosine",
    "worst_element",
    "top1",
    "kl_mean",
    "equal_tokens",
    "repeats",
)
#: Figures of `advisor.domain.check_events.Agreement`.
AGREEMENT_COLUMNS = ("sequences", "identical_sequences")
COLUMNS = (
    *(*RUN_COLUMNS, "machine_unfit"),
    *("workflow", "arm", "status", "evidence", "rank", "score"),
    *(f"tier_{name}" for name in CRITERIA),
    *SPEED_COLUMNS,
    *("cold_build_seconds", "warm_build_seconds", "peak_memory_bytes"),
    *("engaged_share", "correctness", "reason"),
    *GENERATION_COLUMNS,
    *("accuracy_class", *ACCURACY_COLUMNS, *AGREEMENT_COLUMNS),
    *("weights", "loss_class", "loss_basis", "weight_bytes"),
)
#: Characters with which spreadsheets begin a formula.
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")

Value = str | int | float | None


def render(documents: Sequence[RunDocument]) -> str:
    """Return the rows of all documents below one header row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for document in documents:
        for row in rows(document):
            writer.writerow({name: escape_formula(value) for name, value in row.items()})
    return text.getvalue()


def rows(document: RunDocument) -> list[dict[str, Value]]:
    """Return a row for each arm and batch size, and one for each arm without a measurement."""
    return [
        {
            **_run_values(document),
            **_arm_values(entry),
            **(_speed_values(cell) if cell else {}),
            **(_generation_values(cell.generation) if cell and cell.generation else {}),
            **_accuracy_values(entry, cell),
        }
        for entry in document.workflows
        for cell in entry.cells or (None,)
    ]


def escape_formula(value: Value) -> Value:
    """Quote a text that a spreadsheet would evaluate as a formula; return numbers unchanged."""
    is_formula = isinstance(value, str) and value.startswith(FORMULA_PREFIXES)
    return f"'{value}" if is_formula else value


def _run_values(document: RunDocument) -> Mapping[str, Value]:
    question, advice = document.question, document.recommendation
    return {
        "run_id": document.run_id,
        "created": document.created,
        "model": question.model.name,
        "dtype": question.dtype,
        "device": document.device_name,
        "decision": advice.decision_word if advice else None,
        "trust": advice.trust if advice else None,
        "machine_unfit": int(was_machine_unfit(document)),
    }


def _arm_values(entry: WorkflowEntry) -> Mapping[str, Value]:
    return {
        "workflow": entry.id,
        "arm": entry.arm,
        "status": entry.status,
        "evidence": entry.evidence,
        "rank": entry.rank,
        "score": entry.score,
        **{f"tier_{name}": score.tier for name, score in (entry.scores or {}).items()},
        "cold_build_seconds": entry.build_seconds.cold if entry.build_seconds else None,
        "warm_build_seconds": entry.build_seconds.warm if entry.build_seconds else None,
        "peak_memory_bytes": entry.memory_bytes.peak if entry.memory_bytes else None,
        "engaged_share": entry.engaged_share,
        "correctness": entry.correctness.verdict if entry.correctness else None,
        "reason": entry.reason,
        "weights": entry.weights,
        "weight_bytes": entry.weight_bytes,
        "loss_class": entry.trained_loss.loss_class if entry.trained_loss else None,
        "loss_basis": entry.trained_loss.basis if entry.trained_loss else None,
    }


def _accuracy_values(entry: WorkflowEntry, cell: Cell | None) -> Mapping[str, Value]:
    """Return the accuracy at the cell's batch size, or at the first one of an arm without cells."""
    checks = entry.correctness.by_batch_size if entry.correctness else ()
    checked = next(
        (each for each in checks if cell is None or each.batch_size == cell.batch_size), None
    )
    if checked is None:
        return {}
    figures = {name: getattr(checked.accuracy, name, None) for name in ACCURACY_COLUMNS}
    agreement = {name: getattr(checked.agreement, name, None) for name in AGREEMENT_COLUMNS}
    return {"accuracy_class": checked.accuracy_class, **figures, **agreement}


def _speed_values(cell: Cell) -> Mapping[str, Value]:
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
        **(
            {
                f"seconds_{name}": value
                for name, value in msgspec.structs.asdict(percentiles).items()
            }
            if (percentiles := cell.percentiles)
            else {}
        ),
    }


def _generation_values(metrics: GenerationMetrics) -> Mapping[str, Value]:
    return {name: getattr(metrics, name) for name in GENERATION_COLUMNS}
