"""Render runs as CSV: a row for each arm and shape, or for an arm without a measurement."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Mapping, Sequence

import msgspec

from advisor.decide.trust import is_unfit
from advisor.domain.accuracy import worst_check
from advisor.domain.answer import Answer, UnmeasuredArm
from advisor.domain.measurement import CallPercentiles, Cell, GenerationMetrics, Measurement
from advisor.domain.priorities import CRITERIA
from advisor.domain.scores import Evidence, ScoredArm
from probes.wire.checks import Checked

RUN_COLUMNS = ("run_id", "created", "model", "dtype", "device", "decision", "trust")
#: Of `probes.wire.shape.Shape`.
SHAPE_COLUMNS = ("batch_size", "input_tokens", "output_tokens")
SPEED_COLUMNS = (
    *SHAPE_COLUMNS,
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
#: Figures of `probes.wire.checks.Agreement`.
AGREEMENT_COLUMNS = ("sequences", "identical_sequences")
COLUMNS = (
    *(*RUN_COLUMNS, "machine_unfit"),
    *("workflow", "arm", "status", "evidence", "recommended", "rank", "score"),
    *(f"tier_{name}" for name in CRITERIA),
    *SPEED_COLUMNS,
    *("cold_build_seconds", "warm_build_seconds", "peak_memory_bytes"),
    *("engaged_share", "correctness", "reason"),
    *GENERATION_COLUMNS,
    *("accuracy_class", *ACCURACY_COLUMNS, *AGREEMENT_COLUMNS),
    *("weights", "loss_class", "loss_basis", "weight_bytes"),
    *("cost", "cost_unit"),
)
#: Characters with which spreadsheets begin a formula.
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")

Value = str | int | float | None


def render(answers: Sequence[Answer]) -> str:
    """Return the rows of all answers below one header row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for answer in answers:
        for row in rows(answer):
            writer.writerow({name: escape_formula(value) for name, value in row.items()})
    return text.getvalue()


def rows(answer: Answer) -> list[dict[str, Value]]:
    """Return a row for each arm and shape, and one for each arm without a measurement."""
    run, advised = _run_values(answer), answer.advised
    ranked = [
        {
            **run,
            **_arm_values(arm.scored, arm.measured, answer.evidence),
            "recommended": int(advised is not None and arm.arm == advised.arm),
            **(_speed_values(cell) if cell else {}),
            **(_cost_values(answer, arm.arm, cell) if cell else {}),
            **(_generation_values(cell.generation) if cell and cell.generation else {}),
            **_accuracy_values(arm.measured.correctness if arm.measured else (), cell),
        }
        for arm in answer.ranked
        for cell in arm.cells or (None,)
    ]
    return ranked + [
        {**run, **_unmeasured_values(each), **_accuracy_values(each.checks, None)}
        for each in answer.unmeasured
    ]


def escape_formula(value: Value) -> Value:
    """Quote a text that a spreadsheet would evaluate as a formula; return numbers unchanged."""
    is_formula = isinstance(value, str) and value.startswith(FORMULA_PREFIXES)
    return f"'{value}" if is_formula else value


def _run_values(answer: Answer) -> Mapping[str, Value]:
    question, advice = answer.question, answer.recommendation
    return {
        "run_id": answer.run_id,
        "created": answer.created,
        "model": question.model.name,
        "dtype": question.dtype,
        "device": answer.device_name,
        "decision": advice.certainty.decision_word if advice and advice.certainty else None,
        "trust": advice.trust if advice else None,
        "machine_unfit": int(is_unfit(answer.results)),
    }


def _arm_values(
    scored: ScoredArm, measured: Measurement | None, evidence: Evidence
) -> Mapping[str, Value]:
    values: dict[str, Value] = {
        "workflow": scored.workflow,
        "arm": scored.arm,
        "status": "completed" if measured else "excluded",
        "evidence": evidence,
        "rank": scored.rank,
        "score": scored.score,
        **{f"tier_{name}": rating.tier for name, rating in scored.ratings.items()},
        "weights": scored.weights,
    }
    if measured is None:
        return {**values, "reason": f"not measured: {scored.origin}"}
    loss, worst = measured.trained_loss, worst_check(measured.correctness)
    return {
        **values,
        "cold_build_seconds": measured.build_seconds.cold,
        "warm_build_seconds": measured.build_seconds.warm,
        "peak_memory_bytes": measured.memory_bytes.peak,
        "engaged_share": measured.engaged_share,
        "correctness": worst.accuracy_class if worst else "exact",
        "weight_bytes": measured.weight_bytes,
        "loss_class": loss.loss_class if loss else None,
        "loss_basis": loss.basis if loss else None,
    }


def _unmeasured_values(arm: UnmeasuredArm) -> Mapping[str, Value]:
    worst = worst_check(arm.checks)
    return {
        "workflow": arm.workflow,
        "arm": arm.arm,
        "status": arm.status,
        "evidence": "declared",
        "recommended": 0,
        "correctness": worst.accuracy_class if worst else None,
        "reason": arm.reason,
    }


def _accuracy_values(checks: Sequence[Checked], cell: Cell | None) -> Mapping[str, Value]:
    """Return the accuracy at the cell's shape, or at the first one of an arm without cells."""
    checked = next((each for each in checks if cell is None or each.shape == cell.shape), None)
    if checked is None:
        return {}
    figures = {name: getattr(checked.accuracy, name, None) for name in ACCURACY_COLUMNS}
    agreement = {name: getattr(checked.agreement, name, None) for name in AGREEMENT_COLUMNS}
    return {"accuracy_class": checked.accuracy_class, **figures, **agreement}


def _speed_values(cell: Cell) -> Mapping[str, Value]:
    return {
        **dataclasses.asdict(cell.shape),
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


def _cost_values(answer: Answer, arm: str, cell: Cell) -> Mapping[str, Value]:
    costs = answer.recommendation.costs if answer.recommendation else ()
    return next(
        (
            {"cost": cost.value, "cost_unit": cost.unit}
            for cost in costs
            if (cost.arm, cost.shape) == (arm, cell.shape)
        ),
        {},
    )


def _generation_values(metrics: GenerationMetrics) -> Mapping[str, Value]:
    return {name: getattr(metrics, name) for name in GENERATION_COLUMNS}
