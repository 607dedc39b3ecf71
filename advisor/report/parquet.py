"""A fleet's figures as one Parquet file, a row for each workflow and batch size: what data frames and SQL engines read.

The only user of pyarrow, which comes with the extra for fleets.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

from advisor.domain.fleet import Answered, FleetRecord
from advisor.domain.measurement import Cell
from advisor.report.document import RunDocument, WorkflowEntry
from advisor.report.fleet_matrix import reopen

#: The columns with their types in Arrow's words. A null stands for what is not known.
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


def encode(record: FleetRecord, documents: Mapping[str, RunDocument]) -> bytes:
    """Return the Parquet file; a workflow without figures has one row, and so has a race without an answer."""
    import pyarrow as pa  # noqa: PLC0415 - in the extra for fleets only, and slow to import
    from pyarrow import parquet  # noqa: PLC0415 - as above

    schema = pa.schema(
        [(name, getattr(pa, kind + "_" * (kind == "bool"))()) for name, kind in COLUMNS.items()]
    )
    table = pa.Table.from_pylist(list(rows(record, documents)), schema=schema)
    file = io.BytesIO()
    parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def rows(record: FleetRecord, documents: Mapping[str, RunDocument]) -> Iterator[dict[str, Any]]:
    """Yield the rows; a column that a row does not have is null."""
    for answered in reopen(record, documents).answered:
        known = {"fleet": record.order.fleet_id, **_of_race(answered)}
        document = documents.get(str(known["run"]))
        if document is None or answered.reason:
            yield known
            continue
        for entry in document.workflows:
            of_arm = known | _of_arm(entry, document)
            yield from ({**of_arm, **_of_cell(entry.arm, cell, document)} for cell in entry.cells)
            if not entry.cells:
                yield of_arm


def _of_race(answered: Answered) -> dict[str, Any]:
    last = answered.attempts[-1] if answered.attempts else None
    return {
        "model": answered.assignment.model,
        "kind": answered.assignment.kind,
        "node": last.node if last else None,
        "device": last.device if last else None,
        "attempts": len(answered.attempts),
        "run": last.run_id if last else None,
        "problem": answered.reason,
    }


def _of_arm(entry: WorkflowEntry, document: RunDocument) -> dict[str, Any]:
    advice = document.recommendation
    is_chosen = advice is not None and advice.arm == entry.arm
    return {
        "arm": entry.arm,
        "workflow": entry.id,
        "status": entry.status,
        "recommended": is_chosen,
        "verdict": advice.verdict if advice and is_chosen else None,
        "trust": advice.trust if advice and is_chosen else None,
        "score": entry.score,
        "build_seconds": entry.build_seconds.cold if entry.build_seconds else None,
        "peak_memory_bytes": entry.memory_bytes.peak if entry.memory_bytes else None,
    }


def _of_cell(arm: str, cell: Cell, document: RunDocument) -> dict[str, Any]:
    costs = document.recommendation.costs if document.recommendation else ()
    cost = next(
        (cost for cost in costs if (cost.arm, cost.batch_size) == (arm, cell.batch_size)), None
    )
    return {
        "batch_size": cell.batch_size,
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
