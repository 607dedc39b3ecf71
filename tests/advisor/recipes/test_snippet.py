"""The short recipe: load, compile and call, without paths of the machine that measured."""

from __future__ import annotations

import ast

import builders
import pytest

from advisor.domain.question import (
    ExportedModel,
    FactoryModel,
    Model,
    OnnxModel,
    SyntheticModel,
    TransformersModel,
)
from advisor.errors import NoRecipeError
from advisor.recipes.loading import loading_lines
from advisor.recipes.snippet import compose_snippet

INTEGRATION = """\
import onnxruntime
import torch

with torch.no_grad():
    exported = model(*inputs)
"""
BLOCKS = ("matmul", "matmul-relu", "ffn", "ffn-multilayer", "encoder")


def synthetic(block: str) -> SyntheticModel:
    return SyntheticModel(
        name="m",
        block=block,  # type: ignore[arg-type]
        hidden=8,
        intermediate=16,
        layers=2,
        heads=2,
    )


MODELS: list[tuple[Model, str]] = [
    *((synthetic(block), "forward") for block in BLOCKS),
    (ExportedModel(name="/secret/place/net.pt2"), "forward"),
    (FactoryModel(name="/secret/place/net.py:build"), "forward"),
    (FactoryModel(name="/secret/place/Net-1a2b3c.py:build"), "forward"),
    (FactoryModel(name="package.module:build"), "forward"),
    (TransformersModel(name="/secret/place/llama", weights="/secret/place/llama"), "generate"),
    (TransformersModel(name="org/llama", weights="hub"), "generate"),
    (TransformersModel(name="org/llama", weights="random"), "generate"),
]


@pytest.mark.parametrize(("model", "task"), MODELS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_snippet_is_short_python_without_paths(model: Model, task: str, device: str) -> None:
    question = builders.question(model=model, task=task, device=device, dtype="float16")
    text = compose_snippet(question, 4, INTEGRATION)
    ast.parse(text)
    assert "/secret" not in text
    assert len(text.splitlines()) <= 30
    assert ('"cuda"' in text) == (device == "cuda")
    first_step = text.index("with torch.no_grad")
    assert all(line in text[:first_step] for line in ("import onnxruntime", "import torch"))


def test_the_loaded_model_has_the_measured_batch_and_tokens() -> None:
    lines = loading_lines(builders.question(model=synthetic("ffn"), input_tokens=7), 3)
    assert "(3, 7, 8, dtype=torch.float32)" in lines[-1]


@pytest.mark.parametrize(
    "model", [OnnxModel(name="/secret/net.onnx"), TransformersModel(name="a/b", weights="hub")]
)
def test_a_model_without_short_lines_has_no_snippet(model: Model) -> None:
    with pytest.raises(NoRecipeError):
        compose_snippet(builders.question(model=model), 1, INTEGRATION)


def test_a_run_without_the_lines_has_no_snippet() -> None:
    with pytest.raises(NoRecipeError):
        compose_snippet(builders.question(), 1, "")
