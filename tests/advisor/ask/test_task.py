"""`--task`: the default model of each task, and the suggested task of each model."""

from __future__ import annotations

import pathlib

import builders
import msgspec
import pytest

from advisor.ask.answers import Answers
from advisor.ask.resolve import resolve
from advisor.ask.task import suggest_task
from advisor.domain.model import TransformersModel
from advisor.domain.question import Question
from advisor.errors import TaskError

SHIPPED = builders.shipped_catalogue()


def resolved(**answers: str | int) -> Question:
    return resolve(msgspec.convert(answers, Answers), builders.machine(), SHIPPED)


def test_the_default_model_of_generation_is_the_demo_language_model() -> None:
    asked = resolved(task="generate")
    assert isinstance(asked.model, TransformersModel)
    assert (asked.task, asked.model.name, asked.model.weights) == (
        "generate",
        "demo/llama",
        "random",
    )
    assert asked.batch_sizes == SHIPPED.models.demo_batch_sizes
    assert (asked.input_tokens, asked.output_tokens) == (32, 32)


def test_a_language_model_has_the_given_lengths_and_the_batch_sizes_of_the_paper() -> None:
    asked = resolved(
        task="generate",
        model="meta-llama/Llama-3.1-8B-Instruct",
        input_tokens="100",
        output_tokens="200",
    )
    assert (asked.batch_sizes, asked.input_tokens, asked.output_tokens) == (
        (1, 4, 16, 64),
        100,
        200,
    )


@pytest.mark.parametrize("model", ["synthetic/ffn", "package.module:factory"])
def test_a_model_that_is_no_language_model_cannot_generate(model: str) -> None:
    with pytest.raises(TaskError, match="cannot generate") as refused:
        resolved(task="generate", model=model)
    assert "demo/llama" in refused.value.next_step


def test_the_demo_language_models_have_shipped_configurations() -> None:
    assert set(SHIPPED.models.demo_language_models) <= set(SHIPPED.models.configurations)


@pytest.mark.parametrize(
    ("config", "task"),
    [
        ('{"architectures": ["GPT2LMHeadModel"]}', "generate"),
        ('{"architectures": ["BertForMaskedLM"]}', "forward"),
        ('{"architectures": "Llama"}', "forward"),
        ("[1]", "forward"),
        ("not JSON", "forward"),
    ],
)
def test_generation_is_suggested_for_a_causal_language_model(
    tmp_path: pathlib.Path, config: str, task: str
) -> None:
    (tmp_path / "config.json").write_text(config)
    assert suggest_task(str(tmp_path), SHIPPED.models) == task


@pytest.mark.parametrize(
    ("model", "task"),
    [("demo/gpt2", "generate"), ("demo", "forward"), ("gone/away", "forward"), ("a\0b", "forward")],
)
def test_the_suggestion_uses_shipped_configurations_and_local_files(model: str, task: str) -> None:
    assert suggest_task(model, SHIPPED.models) == task


@pytest.mark.parametrize(
    ("workflows", "task"),
    [
        ("", "generate"),
        ("torch-compile-inductor", "generate"),
        ("vllm,torch-compile-inductor", "generate"),
        ("onnxruntime-cpu", "forward"),
        ("onnxruntime-cpu,torch-compile-inductor", "forward"),
        ("openvino/dynamic", "forward"),
    ],
)
def test_the_task_of_a_language_model_suits_the_named_workflows(workflows: str, task: str) -> None:
    assert resolved(model="demo/llama", workflows=workflows).task == task


def test_workflows_without_a_common_task_are_refused_by_name() -> None:
    with pytest.raises(TaskError, match="onnxruntime-cpu") as refused:
        resolved(model="demo/llama", workflows="onnxruntime-cpu,vllm")
    assert "vllm" in refused.value.what
    assert "--task forward" in refused.value.next_step
    forced = resolved(model="demo/llama", workflows="onnxruntime-cpu,vllm", task="forward")
    assert forced.task == "forward"
