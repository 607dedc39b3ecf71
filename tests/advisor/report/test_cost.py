"""Sections about costs and about generated text."""

from __future__ import annotations

import pathlib

import built_answers
import msgspec
import pytest
from recorded_runs import make_run
from report_runs import with_results

from advisor.decide.decision import decide
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import GenerationMetrics
from advisor.report import text_report
from advisor.report.answer import EAGER_COST, cost_line
from advisor.report.text_generation import generation_lines, render_generation
from advisor.store.store import Store

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


def test_a_baseline_that_is_a_server_costs_its_build(answer: Answer) -> None:
    server = "onnxruntime-cpu/host"
    line = cost_line(with_results(answer, baseline=server), arm_of(answer, server))
    assert "build " in line
    assert "MiB" in line
    assert "(" not in line


def test_each_arm_has_a_line_with_its_rate_and_latencies(tmp_path: pathlib.Path) -> None:
    answer = decide(make_run(Store(tmp_path), finished=True, generates=True))
    lines = generation_lines(answer)
    assert lines[1].startswith(
        "  compiled @1: 7,782 tokens/s, first token after 0.411 ms, 0.119 ms between tokens"
    )
    assert lines[1].endswith("KV cache 0.25 MiB")
    assert set(lines) <= set(text_report.render(answer).splitlines())


def test_unknown_metrics_are_left_out_and_other_tasks_have_no_lines() -> None:
    nothing = GenerationMetrics(
        ttft_seconds=None,
        itl_seconds=None,
        tokens_per_second_per_user=None,
        cache_bytes=None,
        mbu=0.5,
        mfu=None,
        method="",
    )
    assert render_generation(nothing) == "50 % of the memory bandwidth"
    assert (
        render_generation(msgspec.structs.replace(nothing, mbu=1.6))
        == "more than the memory bandwidth (served from caches)"
    )
    assert generation_lines(built_answers.answer()) == []
