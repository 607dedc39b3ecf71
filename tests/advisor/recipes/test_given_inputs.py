"""The short recipe reads the inputs that `--inputs` names, and keeps the layout of examples."""

from __future__ import annotations

import pathlib
from typing import Any

import builders
import numpy as np
import pytest
from lazy import lazy

from advisor.domain.model import ExportedModel, FactoryModel, Model, OnnxModel
from advisor.recipes.snippet import compose_snippet
from probes.wire.events import InputFacts

torch = lazy("torch")

pytestmark = [pytest.mark.stack, pytest.mark.filterwarnings("ignore")]  # those of the exporter

INTEGRATION = "import onnxruntime\nimport torch\n\nresult = 1\n"
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


@pytest.mark.parametrize("kind", ["onnx", "exported", "factory", "keywords"])
@pytest.mark.parametrize("given", ["given.npz", "given.py:make"])
def test_the_recipe_has_the_given_inputs(
    kind: str, given: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = "x" if kind in {"onnx", "keywords"} else "arr_0"
    arrays: dict[str, Any] = {name: np.full((2, 3), 7, dtype=np.float32)}
    np.savez("given.npz", **arrays)
    pathlib.Path("given.py").write_text(FUNCTION)
    model = write_model(kind, f"/secret/{given}")
    facts = InputFacts(name="x" if kind == "keywords" else "", shape=(3,), dtype="float32")
    names: dict[str, Any] = {}
    question = builders.question(model=model)
    exec(compose_snippet(question, 3, INTEGRATION, (facts,)), names)
    assert torch.equal(names["inputs"][0], torch.full((3, 3), 7.0))


def test_the_recipe_keeps_the_layout_of_the_examples(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "net_of_layout.py").write_text(
        "import torch\n\ndef build():\n    last = torch.channels_last\n"
        "    return torch.nn.ReLU(), torch.ones(2, 3, 4, 4).to(memory_format=last)\n"
    )
    model = FactoryModel(name="net_of_layout:build")
    facts = InputFacts(name="", shape=(3, 4, 4), dtype="float32")
    names: dict[str, Any] = {}
    exec(compose_snippet(builders.question(model=model), 3, INTEGRATION, (facts,)), names)
    assert names["inputs"][0].shape == (3, 3, 4, 4)
    assert names["inputs"][0].is_contiguous(memory_format=torch.channels_last)
