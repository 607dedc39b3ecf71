"""Sections about costs and about generated text."""

from __future__ import annotations

import pathlib

import builders
import built_answers
import built_measurements
import msgspec
import pytest
from built_answers import run_answer, with_results
from recorded_runs import make_run

from advisor.decide.decision import decide
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.recommendation import BreakEven
from advisor.report import generation
from advisor.report.answer import EAGER_COST, cost_line
from advisor.store.store import Store
from probes.wire.shape import Shape

EVIDENCE = pathlib.Path(__file__).parents[2] / "stacks" / "evidence"


@pytest.fixture(scope="module")
def answer() -> Answer:
    file = EVIDENCE / "cpu-quantised-ffn-1024x4096x2.json"
    return msgspec.json.decode(file.read_bytes(), type=Answer)


def arm_of(answer: Answer, arm: str) -> RankedArm:
    return next(each for each in answer.ranked if each.arm == arm)


def test_eager_pytorch_costs_nothing(answer: Answer) -> None:
    assert cost_line(answer, arm_of(answer, "pytorch-eager")) == EAGER_COST


def test_an_arm_costs_a_build_and_memory_next_to_the_baseline(answer: Answer) -> None:
    line = cost_line(answer, arm_of(answer, "onnxruntime-cpu/host"))
    assert "build " in line
    assert "(eager " in line


def test_a_build_from_caches_is_named_where_the_printed_lines_use_them(answer: Answer) -> None:
    for arm, keeps in (("onnxruntime-cpu/int8", False), ("torchao/int8-dynamic", True)):
        assert builders.known(arm_of(answer, arm).measured.build_seconds.warm) > 0
        assert ("from caches" in cost_line(answer, arm_of(answer, arm))) == keeps


@pytest.mark.parametrize(
    ("requests", "said"), [((None, None), ""), ((50.0, None), "never"), ((50.0, 90.0), "90")]
)
def test_a_build_is_repaid_when_it_is_at_every_batch_size(
    answer: Answer, requests: tuple[float | None, ...], said: str
) -> None:
    advised = builders.known(answer.advised)
    even = tuple(
        BreakEven(shape=Shape(size), requests=count, low=count, high=count)
        for size, count in zip((1, 4), requests, strict=True)
    )
    line = cost_line(built_answers.with_advice(answer, break_even=even), advised)
    assert ("repaid" in line) == bool(said)
    assert said in line


def test_a_baseline_that_is_a_server_costs_its_build(answer: Answer) -> None:
    server = "onnxruntime-cpu/host"
    line = cost_line(with_results(answer, baseline=server), arm_of(answer, server))
    assert "build " in line
    assert "MiB" in line
    assert "(" not in line


def test_each_arm_has_a_row_with_its_rate_and_latencies(tmp_path: pathlib.Path) -> None:
    answer = decide(make_run(Store(tmp_path), finished=True, generates=True))
    head, first, *_ = generation.text_rows(answer)
    row = dict(zip(head, first, strict=True))
    assert [row[name] for name in ("arm", "batch", "tokens/s", "TTFT, ms", "ITL, ms")] == [
        *("compiled", "1", "7,782", "0.411", "0.119")
    ]
    assert row["cache MiB"] == "0.25"
    assert not generation.text_rows(built_answers.answer())


LEVELS = tuple(
    built_measurements.rate_level(
        rate, ttft_seconds=(0.011, 0.022, 0.033), itl_seconds=(0.004, 0.005, 0.006), failed=failed
    )
    for rate, failed in ((5.0, 0), (8.0, 0), (10.0, 3))
)


def served_answer(joules_per_token: float | None = None) -> Answer:
    arm = built_measurements.served_arm(levels=LEVELS, joules_per_token=joules_per_token)
    answer = run_answer(question=builders.question(load=built_measurements.load()))
    return with_results(answer, serving=built_measurements.serving(arm))


def test_the_energy_of_a_token_is_a_column_where_it_was_measured() -> None:
    assert generation.ENERGY_HEAD not in generation.server_rows(served_answer())[0]
    head, row = generation.server_rows(served_answer(0.1234))
    assert row[head.index(generation.ENERGY_HEAD)] == "0.123"


def test_each_server_has_its_goodput_and_its_latency_by_rate() -> None:
    servers, latency = generation.tables(served_answer())
    (_, server), (_, *levels) = servers.rows, latency.rows
    assert server[:3] == ["engine", "at least 10.00 (8.33 to 12.00)", "40"]
    assert [row[1:3] for row in levels] == [["5", "50 %"], ["8", "80 %"], ["10", "100 %"]]
    assert levels[-1][4:] == ["11", "22", "33", "4", "5", "6", "3"]


def test_a_search_that_found_no_rate_that_fails_is_marked_in_the_table() -> None:
    for met, is_least in ((1.0, True), (0.5, False)):
        last = msgspec.structs.replace(LEVELS[-1], met=met)
        arm = built_measurements.served_arm(levels=(*LEVELS[:-1], last))
        served = with_results(served_answer(), serving=built_measurements.serving(arm))
        (_, row) = generation.server_rows(served)
        assert ("at least 10.00" in row[1]) == is_least
