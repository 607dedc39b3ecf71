"""Lines that load a model, whatever its name."""

from __future__ import annotations

import ast
import pathlib
from typing import Any

import builders
import pytest

from advisor.domain.model import (
    ExportedModel,
    FactoryModel,
    Model,
    OnnxModel,
    TransformersModel,
)
from advisor.errors import NoRecipeError
from advisor.recipes.loading import loading_lines
from advisor.recipes.snippet import compose_snippet
from probes.wire.events import InputFacts

INTEGRATION = "import torch\n\nwith torch.no_grad():\n    output = model(*inputs)\n"
TOKENS = InputFacts(name="input_ids", shape=(7,), dtype="int64", low=3, high=50)
#: Each would call `boom` if it ended the string or the comment that it is in.
HOSTILE = ('a"); boom(); ("', "a\nboom()", "a\rboom()", 'a\\"+boom()+"', "a # boom()")


def models_of(name: str) -> list[tuple[Model, str]]:
    return [
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


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_a_string_of_the_snippet(name: str) -> None:
    for model, task in models_of(name):
        question = builders.question(model=model, task=task)
        tree = ast.parse(compose_snippet(question, 4, INTEGRATION, (TOKENS,)))
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert "boom" not in called
        assert any(isinstance(each, str) and name in each for each in strings), model


def test_a_factory_that_is_no_name_of_python_has_no_snippet() -> None:
    question = builders.question(model=FactoryModel(name="/x/net.py:build(), boom"))
    with pytest.raises(NoRecipeError):
        compose_snippet(question, 4, INTEGRATION, (TOKENS,))


@pytest.mark.parametrize("weights", ["random", "/secret/place/gpt2"])
def test_a_local_directory_is_named_by_its_relative_path(weights: str) -> None:
    model = TransformersModel(name="/secret/place/gpt2", weights=weights)
    text = compose_snippet(builders.question(model=model, task="generate"), 1, INTEGRATION)
    (line,) = (line for line in text.splitlines() if "gpt2" in line)
    assert '"./gpt2"' in line
    assert line.endswith("# run this in the folder of gpt2")
    assert not pathlib.PurePath(line.split('"')[1]).is_absolute()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of scripted modules
@pytest.mark.parametrize("scripted", [False, True])
def test_parameters_require_no_gradients(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, scripted: bool
) -> None:
    """A scripted module has no `requires_grad_`."""
    monkeypatch.syspath_prepend(tmp_path)
    module = f"frozen_{scripted}"
    made = "torch.jit.script(torch.nn.Linear(3, 2))" if scripted else "torch.nn.Linear(3, 2)"
    (tmp_path / f"{module}.py").write_text(
        f"import torch\n\n\ndef build():\n    return {made}, torch.zeros(1, 3)\n"
    )
    question = builders.question(model=FactoryModel(name=f"/secret/{module}.py:build"))
    names: dict[str, Any] = {}
    exec("\n".join(["import torch", *loading_lines(question, 2)]), names)
    assert not any(each.requires_grad for each in names["model"].parameters())
    assert names["model"](*names["inputs"]).shape == (2, 2)
