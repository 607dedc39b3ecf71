"""Encode the figures of a fleet as a Parquet file for data frames and SQL engines.

This is the only module that uses pyarrow, which comes with the extra `fleet`.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator, Mapping
from typing import Any

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.fleet import AssignmentResult, FleetRecord
from advisor.domain.measurement import Cell
from advisor.report.fleets.fleet_matrix import flag_unusable_results

#: The Arrow types of the columns. A null stands for a value that is not known.
COLUMNS = {
    "fleet": "string",
    "model": "string",
    "kind": "string",
    "node": "string",
    "device": "string",
    "attempts": "int32",
    "run": "string",
    "problem": "string",
    "arm": "string",
    "workflow": "string",
    "status": "string",
    "recommended": "bool",
    "verdict": "string",
    "trust": "string",
    "score": "float64",
    "build_seconds": "float64",
    "peak_memory_bytes": "int64",
    "batch_size": "int32",
    "input_tokens": "int32",
    "output_tokens": "int32",
    "seconds_median": "float64",
    "seconds_low": "float64",
    "seconds_high": "float64",
    "samples": "int32",
    "throughput": "float64",
    "throughput_unit": "string",
    "speedup": "float64",
    "speedup_low": "float64",
    "speedup_high": "float64",
    "cost": "float64",
    "cost_unit": "string",
}


def encode(record: FleetRecord, answers: Mapping[str, Answer]) -> bytes:
    """Return the Parquet file; its rows are those of `rows`."""
    import pyarrow as pa  # noqa: PLC0415 - in the extra for fleets and slow to import
    from pyarrow import parquet  # noqa: PLC0415 - as above

    schema = pa.schema(
        [(name, getattr(pa, kind + "_" * (kind == "bool"))()) for name, kind in COLUMNS.items()]
    )
    table = pa.Table.from_pylist(list(rows(record, answers)), schema=schema)
    file = io.BytesIO()
    parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def rows(record: FleetRecord, answers: Mapping[str, Answer]) -> Iterator[dict[str, Any]]:
    """Yield a row for each workflow and shape; a column that is absent is null.

    A workflow without figures has one row, and so has a result without a usable run.
    """
    for result in flag_unusable_results(record, answers).answered:
        values = {"fleet": record.request.fleet_id, **_result_values(result)}
        answer = answers.get(str(values["run"]))
        if answer is None or result.reason:
            yield values
            continue
        for arm in answer.ranked:
            arm_values = values | _arm_values(arm, answer)
            for cell in arm.cells:
                yield arm_values | _speed_values(arm.scored.arm, cell, answer)
            if not arm.cells:
                yield arm_values
        for each in answer.unmeasured:
            names = {"arm": each.arm, "workflow": each.workflow, "status": each.status}
            yield values | names | {"recommended": False}


def _result_values(result: AssignmentResult) -> dict[str, Any]:
    last = result.attempts[-1] if result.attempts else None
    return {
        "model": result.assignment.model,
        "kind": result.assignment.kind,
        "node": last.node if last else None,
        "device": last.device if last else None,
        "attempts": len(result.attempts),
        "run": last.run_id if last else None,
        "problem": result.reason,
    }


def _arm_values(arm: RankedArm, answer: Answer) -> dict[str, Any]:
    advice, (scored, measured) = answer.recommendation, arm
    is_recommended = advice is not None and advice.arm == scored.arm
    return {
        "arm": scored.arm,
        "workflow": scored.workflow,
        "status": "completed",
        "recommended": is_recommended,
        "verdict": advice.verdict if advice and is_recommended else None,
        "trust": advice.trust if advice and is_recommended else None,
        "score": scored.score,
        "build_seconds": measured.build_seconds.cold if measured else None,
        "peak_memory_bytes": measured.memory_bytes.peak if measured else None,
    }


def _speed_values(arm: str, cell: Cell, answer: Answer) -> dict[str, Any]:
    costs = answer.recommendation.costs if answer.recommendation else ()
    cost = next((cost for cost in costs if (cost.arm, cost.shape) == (arm, cell.shape)), None)
    return {
        **dataclasses.asdict(cell.shape),
        "seconds_median": cell.seconds.median,
        "seconds_low": cell.seconds.low,
        "seconds_high": cell.seconds.high,
        "samples": cell.seconds.samples,
        "throughput": cell.throughput.value,
        "throughput_unit": cell.throughput.unit,
        "speedup": cell.speedup.value,
        "speedup_low": cell.speedup.low,
        "speedup_high": cell.speedup.high,
        "cost": cost.value if cost else None,
        "cost_unit": cost.unit if cost else None,
    }
