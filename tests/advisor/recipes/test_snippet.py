"""The short recipe: load, compile and call, without paths of the machine that measured."""

from __future__ import annotations

import ast
import pathlib
from typing import Any

import builders
import numpy as np
import pytest
import torch
import workers

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
from probes.workflows import onnxruntime_cpu, pytorch_eager

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
    (OnnxModel(name="/secret/place/net.onnx"), "forward"),
    (TransformersModel(name="/secret/place/bert", weights="/secret/place/bert"), "forward"),
    (TransformersModel(name="org/bert", weights="random"), "forward"),
    (TransformersModel(name="org/llama", weights="random"), "generate"),
]


@pytest.mark.parametrize(("model", "task"), MODELS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_snippet_is_short_python_without_paths(model: Model, task: str, device: str) -> None:
    question = builders.question(model=model, task=task, device=device, dtype="float16")
    text = compose_snippet(question, 4, INTEGRATION)
    ast.parse(text)
    assert "/secret" not in text
    assert len(text.splitlines()) <= 40
    assert ('"cuda"' in text) == (device == "cuda")
    first_step = text.index("with torch.no_grad")
    assert all(line in text[:first_step] for line in ("import onnxruntime", "import torch"))


def test_the_loaded_model_has_the_measured_batch_and_tokens() -> None:
    lines = loading_lines(builders.question(model=synthetic("ffn"), input_tokens=7), 3)
    assert "(3, 7, 8, dtype=torch.float32)" in lines[-1]


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch's exporter
def test_the_snippet_of_an_onnx_file_runs_the_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = torch.nn.Linear(3, 2).eval()
    torch.onnx.export(
        module,
        (torch.zeros(2, 3),),
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim.AUTO},),
    ).save(tmp_path / "net.onnx")
    subject = {"kind": "onnx", "name": "net.onnx"}
    for feeding in ("io-binding", "host"):
        integration = integration_of(onnxruntime_cpu, subject, feeding=feeding)
        question = builders.question(model=OnnxModel(name="/secret/net.onnx"))
        names = run_snippet(compose_snippet(question, 4, integration))
        expected = module(names["inputs"][0]).detach().numpy()
        np.testing.assert_allclose(names["output"][0], expected, atol=1e-6)
        assert expected.shape == (4, 2)


CONFIGS: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    (
        {
            "model_type": "bert",
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "vocab_size": 50,
        },
        (4, 7, 16),
    ),
    (
        {
            "model_type": "vit",
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 32,
            "patch_size": 16,
        },
        (4, 5, 16),
    ),
    (
        {
            "model_type": "t5",
            "d_model": 16,
            "d_ff": 32,
            "d_kv": 8,
            "num_layers": 1,
            "num_heads": 2,
            "vocab_size": 50,
            "architectures": ["T5ForConditionalGeneration"],
        },
        (4, 7, 50),
    ),
]


@pytest.mark.stack
@pytest.mark.parametrize(("config", "shape"), CONFIGS)
def test_the_snippet_of_a_transformers_model_computes_its_output(
    config: dict[str, Any], shape: tuple[int, ...]
) -> None:
    model = TransformersModel(name="demo/encoder", weights="random", config=config)
    question = builders.question(model=model, input_tokens=7)
    integration = integration_of(pytorch_eager, {"kind": "transformers"})
    names = run_snippet(compose_snippet(question, 4, integration))
    assert names["output"].shape == shape
    assert names["output"].isfinite().all()


def integration_of(workflow: Any, subject: dict[str, Any], **options: Any) -> str:
    request = workers.make_request(
        pathlib.Path("unused.py"), pathlib.Path(), subject=subject, options=options
    )
    return str(workflow.integration(request))


def run_snippet(text: str) -> dict[str, Any]:
    """Run the snippet as a program and return its global names."""
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(text, "snippet.py", "exec"), names)
    return names


def test_a_run_without_the_lines_has_no_snippet() -> None:
    with pytest.raises(NoRecipeError):
        compose_snippet(builders.question(), 1, "")
