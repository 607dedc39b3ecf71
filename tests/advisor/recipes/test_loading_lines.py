from __future__ import annotations

import ast
import pathlib
from typing import Any

import builders
import numpy as np
import pytest
from lazy import torch

from advisor.domain.errors import NoRecipeError
from advisor.domain.model import ExportedModel, FactoryModel, Model, OnnxModel, TransformersModel
from advisor.recipes.loading import loading_lines
from advisor.recipes.snippet import FREE_BATCH, compose_snippet, name_files
from probes.facts import InputSpec

INTEGRATION = "import torch\n\nwith torch.no_grad():\n    output = model(*inputs)\n"
TOKENS = InputSpec(name="input_ids", shape=(7,), dtype="int64", low=3, high=50)
#: Each would call `boom` if it ended the string or the comment that it is in.
HOSTILE = ('a"); boom(); ("', "a\nboom()", "a\rboom()", 'a\\"+boom()+"', "a # boom()")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_a_string_of_the_snippet(name: str) -> None:
    models: list[tuple[Model, str]] = [
        (ExportedModel(name=f"/x/{name}.pt2"), "forward"),
        (OnnxModel(name=f"/x/{name}.onnx"), "forward"),
        (OnnxModel(name="/x/net.onnx", inputs=f"/x/{name}.npz"), "forward"),
        (FactoryModel(name=f"/x/{name}.py:build"), "forward"),
        (FactoryModel(name="/x/net.py:build", inputs=f"/x/{name}.py:{name}"), "forward"),
        (TransformersModel(name=f"/x/{name}", weights="random"), "forward"),
        (TransformersModel(name=f"/x/{name}", weights=f"/x/{name}"), "forward"),
        (TransformersModel(name=f"/x/{name}", weights="random"), "generate"),
        (TransformersModel(name=f"/x/{name}", weights=f"/x/{name}"), "generate"),
        (TransformersModel(name=name, weights="hub"), "generate"),
    ]

    for model, task in models:
        question = builders.question(model=model, task=task)
        tree = ast.parse(compose_snippet(question, 4, INTEGRATION, (TOKENS,)))
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert "boom" not in called
        assert any(isinstance(each, str) and name in each for each in strings), model


@pytest.mark.parametrize(
    ("file", "imported"),
    [
        ("net.py", "from net import build"),
        ("my net.py", 'runpy.run_path("my net.py")'),
        ("class.py", 'runpy.run_path("class.py")'),
    ],
)
def test_a_file_that_makes_its_model_has_the_same_weights_in_each_process(
    file: str, imported: str
) -> None:
    question = builders.question(model=FactoryModel(name=f"/x/{file}:build"))
    snippet = compose_snippet(question, 4, INTEGRATION, (TOKENS,))
    assert snippet.index("torch.manual_seed(0)") < snippet.index(imported)
    for is_copy in (False, True):
        question = builders.question(model=FactoryModel(name=f"/x/{file}:build", is_copy=is_copy))
        lines = compose_snippet(question, 4, INTEGRATION, (TOKENS,))
        assert ("in the folder of" in lines, "put your own" in lines) == (not is_copy, is_copy)


@pytest.mark.parametrize(
    ("function", "lines"),
    [("build(), boom", INTEGRATION), ("build", "x = ("), ("build", "\0"), ("build", "(" * 20_000)],
)
def test_a_function_and_lines_that_are_no_python_are_a_user_error(
    function: str, lines: str
) -> None:
    question = builders.question(model=FactoryModel(name=f"/x/net.py:{function}"))
    with pytest.raises(NoRecipeError):
        compose_snippet(question, 4, lines, (TOKENS,))


@pytest.mark.parametrize("weights", ["random", "/secret/place/gpt2"])
def test_a_local_directory_is_named_by_its_relative_path(weights: str) -> None:
    model = TransformersModel(name="/secret/place/gpt2", weights=weights)
    text = compose_snippet(builders.question(model=model, task="generate"), 1, INTEGRATION)
    (line,) = (line for line in text.splitlines() if "gpt2" in line)
    assert '"./gpt2"' in line
    assert line.endswith("# run this in the folder of gpt2")
    assert not pathlib.PurePath(line.split('"')[1]).is_absolute()


@pytest.mark.parametrize(
    ("model", "stem"),
    [
        (FactoryModel(name="/a/serve.py:build"), "serve-build"),
        (FactoryModel(name="package.nets:build"), "package-nets-build"),
        (TransformersModel(name="org/Net-1.5b", weights="hub"), "Net-1-5b"),
        (ExportedModel(name="/a/net.pt2"), "net"),
        (OnnxModel(name='/a/-r "x"\n.onnx'), "r-x"),
        (OnnxModel(name="/a/\N{SNOWMAN}.onnx"), "model"),
    ],
)
def test_files_are_named_after_model_precision_and_batch(model: Model, stem: str) -> None:
    lines = 'model.save("model.onnx", "quantised.onnx.data")\n'
    own, free = builders.question(model=model, dtype="own"), f"x = {FREE_BATCH}AUTO\n"
    named = f'model.save("{stem}-batch-8.onnx", "{stem}-batch-8-quantised.onnx.data")\n'
    assert name_files(lines, own, 8) == named
    assert name_files(free + lines, own, 8) == free + named.replace("batch-8", "batch-any")
    half = builders.question(model=model, dtype="float16")
    assert f'"{stem}-float16-batch-1.onnx"' in name_files(lines, half, 1)


ONNX_INTEGRATION = "import onnxruntime\nimport torch\n\nresult = 1\n"
#: `{inputs}` of a function, which names them or does not.
FUNCTION = """
import numpy as np
import torch


def make():
    given = {name: torch.from_numpy(array) for name, array in np.load("given.npz").items()}
    return given if "x" in given else given["arr_0"]
"""


def write_model(kind: str, given: str) -> Model:
    """Write a model of one input into the present folder."""
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(2, 3),), strict=False)
    if kind == "onnx":
        torch.onnx.export(program, input_names=["x"], dynamo=True).save("net.onnx")
        return OnnxModel(name="/secret/net.onnx", inputs=given)
    if kind == "exported":
        torch.export.save(program, "net.pt2")
        return ExportedModel(name="/secret/net.pt2", inputs=given)
    code = "import torch\n\ndef build():\n    return torch.nn.ReLU()\n"
    pathlib.Path("net_of_given.py").write_text(code)
    return FactoryModel(name="/secret/net_of_given.py:build", inputs=given)


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")  # those of the exporter
@pytest.mark.parametrize("kind", ["onnx", "exported", "factory", "keywords"])
@pytest.mark.parametrize("given", ["given.npz", "given.py:make"])
def test_the_recipe_has_the_given_inputs(
    kind: str, given: str, here: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(here)
    name = "x" if kind in {"onnx", "keywords"} else "arr_0"
    arrays: dict[str, Any] = {name: np.full((2, 3), 7, dtype=np.float32)}
    np.savez("given.npz", **arrays)
    pathlib.Path("given.py").write_text(FUNCTION)
    model = write_model(kind, f"/secret/{given}")
    facts = InputSpec(name="x" if kind == "keywords" else "", shape=(3,), dtype="float32")
    names: dict[str, Any] = {}
    exec(compose_snippet(builders.question(model=model), 3, ONNX_INTEGRATION, (facts,)), names)
    assert torch.equal(names["inputs"][0], torch.full((3, 3), 7.0))
    with pytest.raises(NoRecipeError):
        compose_snippet(builders.question(model=OnnxModel(name="a.onnx")), 3, ONNX_INTEGRATION)


@pytest.mark.stack
def test_the_recipe_keeps_the_layout_of_the_examples(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "net_of_layout.py").write_text(
        "import torch\n\ndef build():\n    last = torch.channels_last\n"
        "    return torch.nn.ReLU(), torch.ones(2, 3, 4, 4).to(memory_format=last)\n"
    )
    model = FactoryModel(name="net_of_layout:build")
    facts = InputSpec(name="", shape=(3, 4, 4), dtype="float32")
    names: dict[str, Any] = {}
    exec(compose_snippet(builders.question(model=model), 3, ONNX_INTEGRATION, (facts,)), names)
    assert names["inputs"][0].shape == (3, 3, 4, 4)
    assert names["inputs"][0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.stack
@pytest.mark.parametrize(("rows", "most"), [(3, 9), (8, 8), (64, 64), (None, 9)])
def test_examples_are_repeated_no_more_than_the_batch_needs(
    rows: int | None, most: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = rows or 3
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"net_{rows}.py").write_text(
        f"import torch\ndef build():\n    return torch.nn.Identity(), torch.ones({size}, 4)\n"
    )
    question = builders.question(
        model=FactoryModel(name=f"{tmp_path}/net_{rows}.py:build"), dtype="own"
    )
    inputs = (InputSpec(name="", shape=(4,), dtype="float32", rows=rows),)
    text = "\n".join(loading_lines(question, 8, inputs))
    imports = "import os, runpy, sys\nimport torch\n"
    found: dict[str, Any] = {}
    exec(imports + text, found)
    (values,) = found["inputs"]
    assert values.shape == (8, 4)
    assert values.untyped_storage().nbytes() <= most * 4 * 4


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")
def test_the_recipe_of_a_file_loads_nested_inputs(here: pathlib.Path) -> None:
    class Nested(torch.nn.Module):  # type: ignore[misc] # torch is not followed
        def forward(self, x: dict[str, Any], *, scale: Any) -> Any:
            return x["a"] * scale

    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(
        Nested(),
        ({"a": torch.ones(2, 8)},),
        {"scale": torch.full((2, 8), 3.0)},
        dynamic_shapes={"x": {"a": {0: batch}}, "scale": {0: batch}},
    )
    torch.export.save(program, here / "net.pt2")
    question = builders.question(model=ExportedModel(name=str(here / "net.pt2")), dtype="own")
    inputs = [InputSpec(name="", shape=(8,), dtype="float32", nested=True)] * 2
    lines = ["import collections.abc, dataclasses, torch", *loading_lines(question, 5, inputs)]
    made: dict[str, Any] = {}
    exec("\n".join(lines), made)
    assert made["model"](*made["inputs"]).tolist() == [[3.0] * 8] * 5
