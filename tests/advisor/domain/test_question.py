"""Texts and figures of a question, its priorities, and an answer and its summary."""

from __future__ import annotations

import builders
import built_answers
import pytest
from drawn import weights
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.answer import AnswerSummary, Problem
from advisor.domain.constraints import CRITERIA, PILLARS, Constraint, Priorities
from advisor.domain.errors import NothingViableError
from advisor.domain.model import MAX_SHORT_NAME, FactoryModel, short_name


def test_the_device_is_the_gpu_or_the_gpus_that_were_measured() -> None:
    device = builders.gpu()
    header = builders.header(
        machine=builders.gpu_machine(device),
        question=builders.question(
            device="cuda", gpu=device.uuid, further_gpus=("GPU-2",), price_per_hour=2.0
        ),
    )
    assert header.device_name == f"2x {device.name}"
    assert header.question.price_of_all_devices == 4.0
    assert builders.question().price_of_all_devices is None
    assert builders.question().gpus == ()
    two = builders.gpu_machine(builders.gpu(uuid="GPU-a", name="NVIDIA A100"), device)
    asked = builders.question(device="cuda", gpu=device.uuid)
    assert built_answers.answer(machine=two, question=asked).device_name == device.name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("openai/whisper-base", "openai/whisper-base"),
        ("/models/mine/model.pt2", "model.pt2"),
        ("a" * MAX_SHORT_NAME, "a" * MAX_SHORT_NAME),
        ("a" * 400 + "b" * 100, f"{'a' * 30}\N{HORIZONTAL ELLIPSIS}{'b' * 29}"),
    ],
)
def test_the_short_name_has_no_directory_and_both_ends(name: str, shown: str) -> None:
    assert short_name(FactoryModel(name=name)) == shown


@pytest.mark.parametrize(
    ("constraint", "value", "text"),
    [
        (Constraint("speedup", ">=", 3.0), 2.77633, "2.78x"),
        (Constraint("speedup", ">=", 2.8), 2.79964, "2.7996x"),
        (Constraint("build", "<=", 5.0), 5.86001, "5.86s"),
        (Constraint("ttft", "<=", 0.2), 0.20123456, "201ms"),
        (Constraint("memory", "<=", 200 * 2**20), 300.4 * 2**20, "300MiB"),
        (Constraint("memory", "<=", 1e8, unit="MB"), 100_012_345, "100.01MB"),
        (Constraint("accuracy", "<=", 1e-3, unit="%"), 0.0023456, "0.235%"),
        (Constraint("portability", ">=", 2), 1, "C"),
    ],
)
def test_a_measured_value_has_few_digits_and_never_seems_to_meet_the_bound(
    constraint: Constraint, value: float, text: str
) -> None:
    assert constraint.write_measured(value) == text


@pytest.mark.parametrize(
    ("workflow", "arm", "title"),
    [
        ("pytorch-eager", "pytorch-eager", "PyTorch eager"),
        ("pytorch-eager", "pytorch-eager/cuda-graph", "PyTorch eager (CUDA graph)"),
        ("onnxruntime-cpu", "onnxruntime-cpu/io-binding", "ONNX Runtime, CPU (I/O binding)"),
        ("vllm", "vllm/fp8-dynamic", "vLLM (FP8 dynamic)"),
        ("llama-cpp", "llama-cpp/q4_0", "llama.cpp (Q4_0)"),
    ],
)
def test_titles_spell_options_as_texts_do(workflow: str, arm: str, title: str) -> None:
    assert builders.shipped_catalogue().by_id[workflow].title_of(arm) == title


WEIGHTS = weights(range(51))


@given(WEIGHTS)
def test_the_shares_sum_to_one(weights: Priorities) -> None:
    shares = weights.shares()
    assert set(shares) == set(CRITERIA)
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= 0


def test_the_further_criteria_reduce_the_shares_of_the_pillars() -> None:
    shares = builders.priorities(60, 25, 15, input_flexibility=10, architecture_support=30).shares()
    assert shares == pytest.approx(dict(zip(CRITERIA, (0.36, 0.15, 0.09, 0.1, 0.3), strict=True)))


@given(WEIGHTS, st.sampled_from(PILLARS), st.floats(0, 100))
def test_moving_one_weight_keeps_the_sum_and_the_proportion_of_the_others(
    weights: Priorities, pillar: str, weight: float
) -> None:
    moved = weights.with_weight(pillar, weight)
    one, two = (name for name in PILLARS if name != pillar)
    assert getattr(moved, pillar) == weight
    assert sum(getattr(moved, name) for name in PILLARS) == pytest.approx(100)
    assert getattr(moved, one) * getattr(weights, two) == pytest.approx(
        getattr(moved, two) * getattr(weights, one), abs=1e-6
    )
    assert moved.shares()["input_flexibility"] == weights.shares()["input_flexibility"]


def test_pillars_without_weight_share_the_rest_equally() -> None:
    moved = builders.priorities(100, 0, 0).with_weight("performance", 40)
    assert (moved.productivity, moved.portability) == (30, 30)


PROBLEM = NothingViableError("all failed", "ask for less")


def test_the_advised_arm_and_the_baseline_have_their_figures() -> None:
    made = built_answers.answer()
    assert made.advised is not None
    assert made.advised.measured is made.results.by_arm["compiled"]
    assert made.advised.speedup == made.results.by_arm["compiled"].speedup
    assert made.baseline is made.results.by_arm[builders.BASELINE]
    assert built_answers.without_advice(made, PROBLEM).advised is None
    assert built_answers.with_advice(made, arm="gone").advised is None


def test_an_arm_whose_figures_a_file_lacks_is_not_ranked() -> None:
    made = built_answers.answer()
    others = tuple(each for each in made.results.measurements if each.arm != "compiled")
    partial = built_answers.with_results(made, measurements=others)
    assert [each.arm for each in partial.ranking] == [builders.BASELINE]
    assert partial.advised is None


def test_a_summary_has_the_decision_or_the_problem() -> None:
    made = built_answers.answer()
    advice = built_answers.advice_of(made)
    assert AnswerSummary.of(made) == AnswerSummary(
        arm="compiled",
        decision_word=advice.decision.word,
        certainty=advice.decision.certainty,
        trust=advice.trust,
        speedup=made.results.by_arm["compiled"].speedup,
    )
    found = AnswerSummary.of(built_answers.without_advice(made, PROBLEM))
    assert (found.arm, found.problem) == (None, Problem.of(PROBLEM))
