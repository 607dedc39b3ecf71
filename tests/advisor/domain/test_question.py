"""Texts and figures of a question, of its model, its constraints and its workflows."""

from __future__ import annotations

import builders
import pytest

from advisor.domain.constraints import Constraint
from advisor.domain.model import MAX_SHORT_NAME, FactoryModel, short_name


def test_a_model_that_is_split_is_measured_on_all_its_gpus() -> None:
    device = builders.gpu()
    header = builders.header(
        machine=builders.gpu_machine(device),
        question=builders.question(
            device="cuda", gpu=device.uuid, further_gpus=("GPU-2",), price_per_hour=2.0
        ),
    )
    assert header.device == f"2x {device.name}"
    assert header.question.price_of_all_devices == 4.0
    assert builders.question().price_of_all_devices is None
    assert builders.question().gpus == ()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("openai/whisper-base", "openai/whisper-base"),
        ("/models/mine/model.pt2", "model.pt2"),
        ("a" * MAX_SHORT_NAME, "a" * MAX_SHORT_NAME),
    ],
)
def test_the_short_name_has_no_directory(name: str, shown: str) -> None:
    assert short_name(FactoryModel(name=name)) == shown


def test_the_short_name_of_a_long_name_has_both_ends() -> None:
    shown = short_name(FactoryModel(name="a" * 400 + "b" * 100))
    assert len(shown) == MAX_SHORT_NAME
    assert (shown[0], shown[-1]) == ("a", "b")


@pytest.mark.parametrize(
    ("constraint", "value", "text"),
    [
        (Constraint(criterion="speedup", at_least=3.0), 2.77633, "2.78x"),
        (Constraint(criterion="speedup", at_least=2.8), 2.79964, "2.7996x"),
        (Constraint(criterion="build", at_most=5.0), 5.86001, "5.86s"),
        (Constraint(criterion="ttft", at_most=0.2), 0.20123456, "201ms"),
        (Constraint(criterion="memory", at_most=200 * 2**20), 300.4 * 2**20, "300MiB"),
        (Constraint(criterion="portability", at_least=2), 1, "C"),
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
        (
            "torch-compile-inductor",
            "torch-compile-inductor/max-autotune",
            "torch.compile, Inductor (max autotune)",
        ),
    ],
)
def test_titles_spell_options_as_texts_do(workflow: str, arm: str, title: str) -> None:
    known = {each.id: each for each in builders.shipped_catalogue().workflows}
    assert known[workflow].title_of(arm) == title
