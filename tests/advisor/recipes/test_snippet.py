"""The short recipe: load, compile and call, without paths of the machine that measured."""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import subprocess
import sys
from typing import Any
from unittest import mock

import builders
import msgspec
import numpy as np
import pytest
import workers
from lazy import by_request, onnxruntime_cpu, pytorch_eager, torch, transformers

from advisor.domain.errors import NoRecipeError
from advisor.domain.model import (
    ExportedModel,
    FactoryModel,
    Model,
    OnnxModel,
    SyntheticModel,
    TransformersModel,
)
from advisor.recipes import snippet
from advisor.recipes.calls import random_values
from advisor.recipes.loading import loading_lines
from probes.facts import InputSpec
from probes.workflows import sglang, vllm

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
TOKENS = InputSpec(name="input_ids", shape=(7,), dtype="int64", low=3, high=50)


@pytest.mark.parametrize(("model", "task"), MODELS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_snippet_is_short_python_without_paths(model: Model, task: str, device: str) -> None:
    question = builders.question(model=model, task=task, device=device, dtype="float16")
    text = snippet.compose_snippet(question, 4, INTEGRATION, (TOKENS,))
    ast.parse(text)
    assert "/secret" not in text
    assert len(text.splitlines()) <= 49
    assert (snippet.KEEPS_MEMORY in text) == (device == "cpu")
    assert ('"cuda"' in text) == (device == "cuda")
    first_step = text.index("with torch.no_grad")
    assert all(line in text[:first_step] for line in ("import onnxruntime", "import torch"))


@pytest.mark.parametrize(
    ("device", "dtype", "is_off"),
    [("cuda", "float32", True), ("cuda", "bfloat16", False), ("cpu", "float32", False)],
)
def test_code_in_float32_computes_without_tf32_as_it_was_measured(
    device: str, dtype: str, *, is_off: bool
) -> None:
    question = builders.question(model=synthetic("ffn"), device=device, dtype=dtype)
    assert (snippet.WITHOUT_TF32 in snippet.compose_snippet(question, 4, INTEGRATION)) is is_off


def test_a_model_with_named_inputs_is_called_as_its_user_calls_it() -> None:
    plain = InputSpec("", (3,), "float32")
    named = builders.replace(plain, name="image")
    compiled = "compiled = torch.compile(model)\noutput = compiled(*inputs)\n"
    exported = "program = torch.export.export(model, inputs)\noutput = program(*inputs)\n"
    asked = builders.question(model=FactoryModel(name="m.py:make"))
    assert snippet.call_as_given(asked, compiled, [plain]) == compiled
    assert snippet.call_as_given(asked, compiled, [named]) == compiled.replace("(*", "(**")
    for lines, each in ((exported, named), (compiled, builders.replace(named, nested=True))):
        assert snippet.call_as_given(asked, lines, [each]) == f"{snippet.NEEDS_WRAPPER}\n{lines}"
        file = builders.replace(asked, model=OnnxModel(name="net.onnx"))
        assert snippet.call_as_given(file, lines, [each]) == lines


def test_the_loaded_model_has_the_measured_batch_and_tokens() -> None:
    lines = loading_lines(builders.question(model=synthetic("ffn"), input_tokens=7), 3)
    assert "(3, 7, 8, dtype=torch.float32)" in lines[-1]


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch's exporter
def test_the_snippet_of_an_onnx_file_runs_the_file(here: pathlib.Path) -> None:
    module = torch.nn.Linear(3, 2).eval()
    torch.onnx.export(
        module, (torch.zeros(2, 3),), dynamo=True, dynamic_shapes=({0: torch.export.Dim.AUTO},)
    ).save(here / "net.onnx")
    subject = {"kind": "onnx", "name": "net.onnx"}
    for feeding in ("io-binding", "host"):
        integration = integration_of(onnxruntime_cpu, subject, feeding=feeding)
        question = builders.question(model=OnnxModel(name="/secret/net.onnx"))
        known = [InputSpec("", (3,), "float32")]
        assert "randn((3,)," in random_values(builders.replace(known[0], batched=False), 4)
        names = run_snippet(snippet.compose_snippet(question, 4, integration, known))
        expected = module(names["inputs"][0]).detach().numpy()
        np.testing.assert_allclose(names["output"][0], expected, atol=1e-6)
        assert expected.shape == (4, 2)
        # The short answer has these lines alone.
        shown = snippet.shorten(snippet.lines_for(question, integration, 4), 20, 0, known="")
        alone = {"inputs": names["inputs"]}
        exec("\n".join(shown), alone)
        np.testing.assert_allclose(alone["output"][0], expected, atol=1e-6)
        assert ("import torch" in shown) == (feeding == "io-binding")


LONG = """\
import stack
import torch

# The exporter is strict.
exported = stack.export(
    model
)
session = stack.Session(exported)
assert session.runs, "fell back"
# Each call:
feeds = stack.feed(inputs)
output = session.run(feeds)
"""


@pytest.mark.parametrize(
    ("most", "first", "count"),
    [
        (20, "import stack", 10),
        (9, "import stack", 9),
        (8, "import stack", 8),
        (7, "import stack", 7),
        (6, "# 5 more lines, which p3-advisor recipe prints", 5),
        (5, "# 5 more lines, which p3-advisor recipe prints", 5),
    ],
)
def test_code_that_is_too_long_ends_with_its_call(most: int, first: str, count: int) -> None:
    """Comments go first, then checks; else the call stays, and what is above it, in whole."""
    shown = snippet.shorten(LONG, most, most)
    assert (shown[0], len(shown)) == (first, count)
    assert shown[-1] == "output = session.run(feeds)"
    assert "session = stack.Session(exported)" in shown
    assert ("# Each call:" in shown) == (most not in {7, 8})


def test_the_note_on_model_and_inputs_stays() -> None:
    for most in (20, 6, 3):
        shown = snippet.shorten(f"{snippet.NEEDS_WRAPPER}\n{LONG}", most, 5)
        assert shown == [snippet.NEEDS_WRAPPER, *snippet.shorten(LONG, most, 5)]


def test_a_call_that_is_too_long_leaves_room_for_the_lines_above_it() -> None:
    lines = ["import stack", "model = stack.load(model)", *LONG.splitlines()[7:]]
    gap = "# {} more lines, which p3-advisor recipe prints"
    assert snippet.shorten("\n".join(lines), 3, 3) == [*lines[1:3], gap.format(4)]
    assert snippet.shorten(LONG, 3, 3) == [gap.format(8)], "no statement fits"


T5 = {"d_model": 16, "d_ff": 32, "d_kv": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 50}
CONFIGS: list[tuple[dict[str, Any], list[tuple[int, ...]]]] = [
    ({"model_type": "bert", **workers.TEXT}, [(4, 7, 16), (4, 16)]),
    ({"model_type": "vit", **workers.PATCHES}, [(4, 5, 16), (4, 16)]),
    ({"model_type": "t5", **T5, "architectures": ["T5ForConditionalGeneration"]}, [(4, 7, 50)]),
    (
        {
            "model_type": "clip",
            "projection_dim": 8,
            "text_config": workers.TEXT,
            "vision_config": workers.PATCHES,
            "architectures": ["CLIPModel"],
        },
        [(4, 4), (4, 4), (4, 8), (4, 8)],
    ),
]


@pytest.mark.stack
@pytest.mark.parametrize(("config", "shapes"), CONFIGS, ids=lambda each: str(each)[:24])
def test_the_snippet_of_a_transformers_model_computes_the_measured_outputs(
    config: dict[str, Any], shapes: list[tuple[int, ...]], tmp_path: pathlib.Path
) -> None:
    measured_model = {"kind": "transformers", "name": "demo", "weights": "random", "config": config}
    request = workers.subject_request(measured_model, tmp_path, input_tokens=7)
    subject = by_request.open_torch_subject(request)
    model = TransformersModel(name="demo", weights="random", config=config)
    integration = integration_of(pytorch_eager, {"kind": "transformers"})
    question = builders.question(model=model, input_tokens=7)
    text = snippet.compose_snippet(question, 4, integration, reported_inputs(subject))
    with torch.no_grad():
        output = run_snippet(text)["output"]
        measured = subject.run(subject.inputs(4, 0))
    outputs = [output] if isinstance(output, torch.Tensor) else list(output)
    assert [tuple(each.shape) for each in outputs] == shapes
    assert [each.shape for each in measured] == shapes
    assert all(each.isfinite().all() for each in outputs)


def test_a_run_without_lines_has_no_snippet() -> None:
    with pytest.raises(NoRecipeError):
        snippet.compose_snippet(builders.question(), 1, "")


@pytest.mark.parametrize("weights", ["random", "/secret/place/llama"])
def test_the_snippet_trusts_the_code_that_was_trusted(weights: str) -> None:
    model = TransformersModel(name="/secret/place/llama", weights=weights)
    for trusted in (False, True):
        question = builders.question(model=model, task="generate", trust_remote_code=trusted)
        text = snippet.compose_snippet(question, 1, INTEGRATION)
        assert ("trust_remote_code=True" in text) == trusted


@pytest.mark.stack
@pytest.mark.parametrize("weights", ["random", "./trained"])
@pytest.mark.parametrize("scheme", ["", "W8A8"])
def test_the_snippet_of_an_engine_gives_it_a_checkpoint_and_lists_of_token_numbers(
    weights: str, scheme: str, here: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = workers.LLAMA
    if weights != "random":
        transformers.AutoConfig.for_model(**config).save_pretrained(weights)
    quantisers: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: quantisers.append(command))
    engine = mock.MagicMock()
    monkeypatch.setitem(sys.modules, "vllm", engine)
    model = TransformersModel(
        name="trained", weights=weights, config=config if weights == "random" else None
    )
    question = builders.question(model=model, task="generate", input_tokens=7, device="cuda")
    integration = integration_of(vllm, {}, **({"scheme": scheme} if scheme else {}))
    run_snippet(snippet.compose_snippet(question, 4, integration), "__main__")
    opened = quantisers[0][-1] if scheme else engine.LLM.call_args.kwargs["model"]
    assert (here / opened / "config.json").is_file()
    assert (here / opened / "model.safetensors").is_file() == (weights == "random")
    if weights == "random":
        # Some engines do not open a checkpoint without a tokenizer.
        tokenizer = transformers.AutoTokenizer.from_pretrained(here / opened)
        assert tokenizer.convert_tokens_to_ids(["0", "49"]) == [0, 49]
    prompts = [
        each["prompt_token_ids"] for each in engine.LLM.return_value.generate.call_args.args[0]
    ]
    assert [len(prompt) for prompt in prompts] == [7] * 4
    assert all(type(token) is int and 0 <= token < 50 for prompt in prompts for token in prompt)
    assert (engine.LLM.call_args.kwargs["model"] == "quantised") == bool(scheme)
    # The source for the other interpreter is not indented with the block around it.
    assert all(ast.parse(command[2]) for command in quantisers)


@pytest.mark.slow
def test_an_engine_that_imports_the_file_again_does_not_run_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sglang", mock.MagicMock())
    model = TransformersModel(name="org/llama", weights="hub")
    question = builders.question(model=model, task="generate")
    names = run_snippet(
        snippet.compose_snippet(question, 1, integration_of(sglang, {})), "__mp_main__"
    )
    assert "CHECKPOINT" not in names


@pytest.mark.parametrize("name", ["a b", "x): import os  #", "class"])
def test_a_name_that_is_no_name_does_not_become_code(name: str) -> None:
    question = builders.question(model=TransformersModel(name="org/bert", weights="random"))
    with pytest.raises(NoRecipeError):
        snippet.compose_snippet(
            question, 1, INTEGRATION, (InputSpec(name=name, shape=(), dtype="int64"),)
        )


#: A factory for each form of example inputs.
FACTORIES = """
import collections
import dataclasses

import torch


class Scaled(torch.nn.Module):
    def forward(self, x, scale, *, shift=0):
        return x * scale + shift


class Gated(torch.nn.Module):
    def forward(self, x, rows):
        return x * rows[:, None]


class Doubled(torch.nn.Module):
    def train(self, mode=True):  # returns nothing
        super().train(mode)

    def forward(self, x):
        return 2 * x


def tensor():
    return Doubled(), torch.ones(1, 3)


def third():
    return Scaled(), (), {"scale": torch.ones(1, 3), "x": torch.ones(1, 3)}


def number():
    return Scaled(), (torch.ones(1, 3), torch.tensor(2.0))


def fixed():
    return Scaled(), (torch.ones(5, 3), torch.ones(1, 3))


class OfPair(torch.nn.Module):
    def forward(self, pair, factors=None):
        return pair["x"] * (factors[0] if factors else 1) + pair["shift"]


def nested_twice():
    return OfPair(), {"pair": {"shift": torch.tensor(1), "x": torch.ones(1, 3)},
                      "factors": [torch.ones(1, 3)]}


def absent():
    return OfPair(), [{"x": torch.ones(1, 3), "shift": torch.ones(1, 3)}, None]


def constant():
    return Scaled(), (torch.ones(1, 3), torch.ones(1, 3)), {"shift": 1}


Names = collections.namedtuple("Names", "x items")


@dataclasses.dataclass
class Batch:
    names: Names
    factor: torch.Tensor
    rows: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.rows = len(self.factor)
        self.factor = self.factor[:, None]


class OfBatch(torch.nn.Module):
    def forward(self, batch, scale):
        return (batch.names.x * scale + batch.names.items) * batch.factor


def dataclass():
    batch = Batch(Names(torch.ones(1, 3), 1), torch.ones(1))
    return OfBatch(), collections.UserDict(batch=batch, scale=2)


def flat():
    return Gated(), (torch.ones(2, 3), torch.ones(2))


def repeated():
    x = torch.ones(1, 3)
    return Scaled(), (x, x)


def mixed():
    return Scaled(), torch.ones(1, 3), {"scale": torch.ones(1, 3)}
"""


def run_factory(file: pathlib.Path, function: str, size: int, integration: str) -> dict[str, Any]:
    """Return the names of the snippet of a factory, which is written to the file."""
    file.write_text(FACTORIES)
    subject = {"kind": "factory", "name": f"{file}:{function}"}
    request = workers.subject_request(subject, file.parent, batch_sizes=[size])
    inputs = reported_inputs(by_request.open_torch_subject(request))
    question = builders.question(model=FactoryModel(name=f"{file}:{function}"))
    return run_snippet(snippet.compose_snippet(question, size, integration, inputs))


@pytest.mark.stack
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        ("tensor", (4, 3)),
        ("third", (4, 3)),
        ("number", (4, 3)),
        ("fixed", (5, 3)),
        ("nested_twice", (4, 3)),
        ("absent", (4, 3)),
        ("constant", (4, 3)),
        ("mixed", (4, 3)),
        ("repeated", (4, 3)),
        ("dataclass", (4, 3)),
    ],
)
def test_the_snippet_of_a_factory_calls_the_model(
    function: str, shape: tuple[int, ...], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    size = 1 if function == "fixed" else 4
    integration = integration_of(pytorch_eager, {"kind": "factory"})
    output = run_factory(tmp_path / "nets_of_snippets.py", function, size, integration)["output"]
    assert tuple(output.shape) == shape
    assert output.isfinite().all()


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")  # those of the exporter
@pytest.mark.parametrize(
    ("function", "rows"),
    [
        ("tensor", 1),
        ("tensor", 4),
        ("number", 4),
        ("nested_twice", 4),
        ("dataclass", 4),
        ("flat", 4),
        ("repeated", 4),
    ],
)
def test_the_snippet_of_a_factory_exports_with_a_free_batch(
    function: str, rows: int, here: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(here)
    options = {"feeding": "host", "dynamic": True}
    integration = integration_of(onnxruntime_cpu, {"kind": "factory"}, **options)
    session = run_factory(here / "nets_of_exports.py", function, rows, integration)["session"]
    batches = [value.shape[0] for value in session.get_inputs() if value.shape]
    assert batches
    assert all(isinstance(size, str) for size in batches)


def reported_inputs(subject: Any) -> tuple[InputSpec, ...]:
    """Return the inputs as the advisor reads them from a worker."""
    facts = [dataclasses.asdict(each) for each in subject.describe_inputs()]
    return msgspec.convert(facts, tuple[InputSpec, ...])


def integration_of(workflow: Any, subject: dict[str, Any], **options: Any) -> str:
    request = workers.subject_request(subject, options=options)
    return str(workflow.integration(mock.MagicMock(), request))


def run_snippet(text: str, module_name: str = "snippet") -> dict[str, Any]:
    """Run the snippet as a module of this name and return its global names."""
    names: dict[str, Any] = {"__name__": module_name}
    exec(compile(text, "snippet.py", "exec"), names)
    return names
