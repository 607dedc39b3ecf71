"""Encode the figures of a run or a fleet as a Parquet file for data frames and SQL engines.

It has the rows and columns of the CSV; a null stands for a value that is not known. This is the
only module that uses pyarrow, which comes with the extras `fleet` and `export`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

from advisor.domain.answer import Answer
from advisor.domain.fleet import FleetRecord
from advisor.report.exports import csv_rows
from advisor.report.fleets.fleet_matrix import flag_unusable_results

#: Columns of a fleet before those of its runs: `problem` is why a result has no usable run.
FLEET_COLUMNS = ("fleet", "kind", "node", "node_device", "attempts", "problem")
#: Columns of a table that are text, and those that are whole numbers; the others are float64.
TEXT_COLUMNS = {
    *csv_rows.RUN_COLUMNS,
    *("fleet", "kind", "node", "node_device", "problem", "cost_unit"),
    "workflow",
    "arm",
    "status",
    "evidence",
    "throughput_unit",
    "correctness",
    "reason",
    "accuracy_class",
    "weights",
    "loss_class",
    "loss_basis",
    "latency_mismatch",
}
INTEGER_COLUMNS = {
    *("attempts", "machine_unfit", "recommended"),
    "rank",
    *csv_rows.SHAPE_COLUMNS,
    "timed_calls",
    "processes",
    "peak_memory_bytes",
    "cache_bytes",
    "weight_bytes",
    *csv_rows.AGREEMENT_COLUMNS,
    *(name for name in csv_rows.COLUMNS if name.startswith("tier_")),
}


def encode_answer(answer: Answer) -> bytes:
    return _encode(csv_rows.COLUMNS, csv_rows.rows(answer))


def encode_fleet(record: FleetRecord, answers: Mapping[str, Answer]) -> bytes:
    """Return the Parquet file; its rows are those of `fleet_rows`."""
    return _encode((*FLEET_COLUMNS, *csv_rows.COLUMNS), fleet_rows(record, answers))


def _encode(columns: Sequence[str], rows: Iterable[Mapping[str, csv_rows.Value]]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - an extra and slow to import
    from pyarrow import parquet  # noqa: PLC0415 - as above

    schema = pa.schema(
        [
            (
                name,
                pa.string()
                if name in TEXT_COLUMNS
                else pa.int64()
                if name in INTEGER_COLUMNS
                else pa.float64(),
            )
            for name in columns
        ]
    )
    file = io.BytesIO()
    table = pa.Table.from_pylist(list(rows), schema=schema)
    parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def fleet_rows(
    record: FleetRecord, answers: Mapping[str, Answer]
) -> Iterator[dict[str, csv_rows.Value]]:
    """Yield the rows of all runs, and one for a result without a usable run.

    `answers` is by run.
    """
    for result in flag_unusable_results(record, answers).answered:
        last = result.attempts[-1] if result.attempts else None
        values: dict[str, csv_rows.Value] = {
            "fleet": record.request.fleet_id,
            "model": result.assignment.model,
            "kind": result.assignment.kind,
            "node": last.node if last else None,
            "node_device": last.device if last else None,
            "attempts": len(result.attempts),
            "run_id": last.run_id if last else None,
            "problem": result.reason,
        }
        answer = answers.get(last.run_id) if last else None
        if answer is None or result.reason:
            yield values
        else:
            yield from (values | row for row in csv_rows.rows(answer))
