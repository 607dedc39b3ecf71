"""Live modules are saved by their class or exported, and measured by real workers."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import subprocess
import sys
import types
from typing import Any

import pytest
from lazy import factory, live_models, torch

import advisor
from advisor.api import save_live_model
from advisor.domain.errors import ModelRefusedError

MODELS = pathlib.Path(__file__).parents[1] / "advisor" / "api"
NOTEBOOK_MODEL = """
import torch

class NotebookModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def train(self, mode=True):  # returns nothing
        super().train(mode)

    def forward(self, x, scale):
        return torch.relu(self.linear(x)) * scale
"""


@pytest.fixture
def importable_model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model whose class a new process finds on the import path."""
    monkeypatch.syspath_prepend(str(MODELS))
    return importlib.import_module("importable_models").ImportableModel()


@pytest.fixture(params=["__main__", "made_at_run_time", "missing.module"])
def notebook_model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model whose class is in no file."""
    module = types.ModuleType(request.param)
    monkeypatch.setitem(sys.modules, request.param, module)
    exec(NOTEBOOK_MODEL, module.__dict__)
    return module.NotebookModel()


def test_a_module_with_an_importable_class_is_saved_by_its_class(
    importable_model: Any, tmp_path: pathlib.Path
) -> None:
    examples = (torch.ones(2, 8),)
    name = live_models.save(importable_model, examples, tmp_path)
    assert live_models.save(importable_model, examples, tmp_path) == name
    file, _, function = name.rpartition(":")
    expected = importable_model(*examples).sum().item()
    code = (
        f"import runpy; module, examples = runpy.run_path({file!r})[{function!r}]();"
        f"assert abs(module(*examples).sum().item() - {expected!r}) < 1e-5"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/")


def test_a_module_of_a_notebook_is_exported_with_a_dynamic_batch(
    notebook_model: Any, tmp_path: pathlib.Path
) -> None:
    notebook_model.train()
    name = live_models.save(notebook_model, (torch.ones(2, 8), torch.ones(2, 1)), tmp_path)
    assert name.endswith(".pt2")
    assert notebook_model.training
    program = torch.export.load(name).module()
    inputs = torch.randn(5, 8), torch.ones(5, 1)
    torch.testing.assert_close(program(*inputs), notebook_model(*inputs))


GAPS = """
import torch

class Gaps(torch.nn.Module):
    def forward(self, x, absent=None, *, scale, shift=None):
        return x * scale["by"] + (0 if shift is None else shift)
"""


def test_keyword_inputs_are_all_kept(tmp_path: pathlib.Path) -> None:
    module = types.ModuleType("__main__")
    exec(GAPS, module.__dict__)
    inputs = {"x": torch.ones(2, 3), "scale": {"by": torch.full((2, 3), 2.0)}, "shift": 5}
    program = torch.export.load(save_live_model(module.Gaps(), inputs, tmp_path)).module()
    assert (program(torch.ones(4, 3), torch.full((4, 3), 3.0)) == 8).all()


def test_a_class_is_saved_with_its_keyword_inputs(
    importable_model: Any, tmp_path: pathlib.Path
) -> None:
    (keyword,) = inspect.signature(importable_model.forward).parameters
    name = save_live_model(importable_model, {keyword: torch.ones(2, 8)}, tmp_path)
    module, arguments, keywords = factory.check_returned(factory.call_factory(name), name)
    assert (type(module).__name__, arguments) == ("ImportableModel", ())
    assert module(**keywords).shape[0] == 2


def test_other_weights_get_another_name(notebook_model: Any, tmp_path: pathlib.Path) -> None:
    examples = (torch.ones(2, 8), torch.ones(2, 1))
    first = live_models.save(notebook_model, examples, tmp_path)
    with torch.no_grad():
        notebook_model.linear.bias.add_(1)
    assert live_models.save(notebook_model, examples, tmp_path) != first


def test_a_module_without_inputs_is_refused(notebook_model: Any) -> None:
    with pytest.raises(ModelRefusedError):
        advisor.recommend(notebook_model)
    with pytest.raises(ModelRefusedError):
        advisor.recommend(notebook_model, inputs={"absent": torch.ones(1)})
    with pytest.raises(ModelRefusedError):
        advisor.recommend(notebook_model, inputs=(1, 2))
    with pytest.raises(ModelRefusedError):
        advisor.recommend(notebook_model, inputs=(types.SimpleNamespace(x=torch.ones(1)), 1))
    with pytest.raises(ModelRefusedError) as problem:
        advisor.recommend(notebook_model, inputs=(torch.ones(2, 7), torch.ones(2, 1)))
    assert "fix the error" in problem.value.next_step
    notebook_model.computed = notebook_model.linear.weight * 2  # which cannot be copied
    with pytest.raises(ModelRefusedError) as problem:
        advisor.recommend(notebook_model, inputs=(torch.ones(2, 8), torch.ones(2, 1)))
    assert "file.py" in problem.value.next_step
