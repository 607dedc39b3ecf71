"""What the load generator recorded of each request."""

from __future__ import annotations

import pathlib

import pytest

from advisor.domain.question import RequestLengths
from advisor.probing.load_records import (
    GeneratorError,
    Metric,
    Record,
    RecordMetadata,
    assign_records,
    read_records,
)
from advisor.probing.load_trace import PlannedBlock, TracedRequest

LENGTHS = RequestLengths(input_tokens=8, output_tokens=4)
SECOND = 1_000_000_000


def record(number: int, start_seconds: float, **milliseconds: float) -> Record:
    metrics = {name: Metric(value) for name, value in milliseconds.items()}
    return Record(RecordMetadata(str(number), int(start_seconds * SECOND)), metrics)


def answered(number: int, start_seconds: float) -> Record:
    return record(
        number,
        start_seconds,
        time_to_first_token=100.0,
        request_latency=400.0,
        inter_token_latency=10.0,
        output_sequence_length=31,
    )


def block(*times: float) -> PlannedBlock:
    return PlannedBlock(1.0, 10.0, tuple(TracedRequest(at, LENGTHS) for at in times))


def test_records_are_assigned_by_their_number_not_by_their_order() -> None:
    records = [answered(2, 1013.0), answered(1, 1004.5), answered(0, 1001.0)]
    first, second = assign_records(records, [block(1.0, 4.0), block(1.0)], [0.0, 12.0])
    assert [request.late for request in first] == pytest.approx([0.0, 0.5])
    assert [request.ttft for request in first] == pytest.approx([0.1, 0.6])
    assert first[1].seconds == pytest.approx(0.9)
    assert first[1].itl == pytest.approx(0.01)
    assert second[0].late == pytest.approx(0.0)
    assert second[0].output_tokens == 31


def test_what_was_not_answered_has_failed() -> None:
    refused = Record(RecordMetadata("1", 1002 * SECOND), {}, {"message": "status 503"})
    empty = record(2, 1003.0, time_to_first_token=5.0, request_latency=5.0)
    (requests,) = assign_records(
        [answered(0, 1001.0), refused, empty], [block(1.0, 2.0, 3.0, 4.0)], [0.0]
    )
    assert [request.failure is None for request in requests] == [True, False, False, False]
    assert requests[1].failure == "status 503"
    assert requests[3].ttft is None


def test_no_file_has_no_records_and_a_damaged_one_is_an_error(tmp_path: pathlib.Path) -> None:
    assert read_records(tmp_path / "missing") == []
    (tmp_path / "damaged").write_text('{"metadata": 1}\n')
    with pytest.raises(GeneratorError):
        read_records(tmp_path / "damaged")
