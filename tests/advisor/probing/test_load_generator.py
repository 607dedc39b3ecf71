"""The load on a server: its arrivals, the generator's processors, records and failures."""

from __future__ import annotations

import itertools
import pathlib
import statistics

import pytest

from advisor.domain.question import RequestLengths
from advisor.domain.serving import divide_processors
from advisor.probing.load_generator import generator_variables, log_reason
from advisor.probing.request_blocks import (
    BlockLimits,
    GeneratorError,
    PlannedBlock,
    Record,
    RecordMetadata,
    TracedRequest,
    assign_records,
    plan_block,
    read_records,
)


def test_the_reason_of_a_failure_is_the_first_error_that_the_generator_logged(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "log").write_text("│ See the log for more error details. │\n│ Log File: /gone │\n")
    printed = "See the log for more error details. Log File: /gone"
    assert log_reason(tmp_path) == printed
    logs = tmp_path / "out" / "logs"
    logs.mkdir(parents=True)
    lines = [
        "2026-11-23 16:13:53.877 - aiperf.runner - INFO - Starting AIPerf System",
        "2026-11-23 16:13:54.100 - aiperf.worker - ERROR - no tokenizer in this directory",
        "2026-11-23 16:13:54.200 - aiperf.runner - ERROR - the system ended",
    ]
    (logs / "aiperf.log").write_text("\n".join(lines[:1]))
    assert log_reason(tmp_path) == printed
    (logs / "aiperf.log").write_text("\n".join(lines))
    assert log_reason(tmp_path) == "no tokenizer in this directory"


@pytest.mark.parametrize("offline", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_the_generator_opens_the_tokenizer_of_a_directory_where_the_user_is_offline(
    offline: str, tmp_path: pathlib.Path
) -> None:
    inherited = {offline: "1", "HOME": "/home/someone"}
    variables = generator_variables(inherited, tmp_path, str(tmp_path))
    assert offline not in variables
    assert variables["HOME"] == "/home/someone"


SHORT = RequestLengths(input_tokens=8, output_tokens=4)
LONG = RequestLengths(input_tokens=64, output_tokens=32)
SECOND = 1_000_000_000


def record(number: int, start_seconds: float, **milliseconds: float) -> Record:
    metrics = {name: {"value": value} for name, value in milliseconds.items()}
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
    return PlannedBlock(1.0, 10.0, tuple(TracedRequest(at, SHORT) for at in times))


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


def test_arrivals_are_poisson_at_the_rate() -> None:
    planned = plan_block(0, 0, 20.0, BlockLimits(500.0), [SHORT, LONG])
    gaps = [b.at - a.at for a, b in itertools.pairwise(planned.requests)]
    assert statistics.fmean(gaps) == pytest.approx(1 / 20, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(1 / 20, rel=0.05)
    longs = sum(request.lengths == LONG for request in planned.requests)
    assert longs == pytest.approx(len(planned.requests) / 2, rel=0.1)


def test_all_arms_get_the_same_trace_at_every_rate() -> None:
    slow, fast = (
        plan_block(7, 3, rate, BlockLimits(30.0), [SHORT, LONG]).requests for rate in (1.0, 4.0)
    )
    for one, other in zip(slow, fast, strict=False):
        assert one.at == pytest.approx(4 * other.at)
        assert one.lengths == other.lengths
    limits = BlockLimits(30.0)
    assert plan_block(7, 4, 1.0, limits, [SHORT]) != plan_block(7, 3, 1.0, limits, [SHORT])


def test_a_block_has_a_request_at_least() -> None:
    assert len(plan_block(0, 0, 0.001, BlockLimits(1.0), [SHORT]).requests) == 1


def test_a_block_at_a_low_rate_lasts_until_it_has_enough_requests() -> None:
    planned = plan_block(0, 0, 0.5, BlockLimits(10.0, least=25, most_seconds=600.0), [SHORT])
    assert len(planned.requests) == 25
    assert planned.requests[-1].at <= planned.seconds
    assert planned.seconds > 10.0
    short = plan_block(0, 0, 0.5, BlockLimits(10.0, least=25, most_seconds=20.0), [SHORT])
    assert short.requests == planned.requests[: len(short.requests)]
    assert short.requests[-1].at < short.seconds == 20.0


def test_a_block_at_a_high_rate_lasts_as_long_as_any() -> None:
    planned = plan_block(0, 0, 50.0, BlockLimits(10.0, least=25, most_seconds=20.0), [SHORT])
    assert planned.seconds == 10.0
    assert planned.requests[-1].at < 10.0


@pytest.mark.parametrize(
    ("usable", "expected"),
    [
        ({0, 1}, ({0}, {1})),
        ({3, 5, 7, 9}, ({3, 5, 7}, {9})),
        (set(range(16)), (set(range(12)), {12, 13, 14, 15})),
        ({4}, ({4}, {4})),
    ],
)
def test_the_generator_has_processors_of_its_own_where_there_are_several(
    usable: set[int], expected: tuple[set[int], set[int]]
) -> None:
    assert divide_processors(usable, 0.25) == expected
