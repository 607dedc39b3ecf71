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
from advisor.report import generation
from advisor.report.answer import EAGER_COST, cost_line
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


def test_each_arm_has_a_row_with_its_rate_and_latencies(tmp_path: pathlib.Path) -> None:
    answer = decide(make_run(Store(tmp_path), finished=True, generates=True))
    head, first, *_ = generation.text_rows(answer)
    row = dict(zip(head, first, strict=True))
    assert [row[name] for name in ("arm", "batch", "tokens/s", "TTFT, ms", "ITL, ms")] == [
        *("compiled", "1", "7,782", "0.411", "0.119")
    ]
    assert row["cache MiB"] == "0.25"
    assert not generation.text_rows(built_answers.answer())
