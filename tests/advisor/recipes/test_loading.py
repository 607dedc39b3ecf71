"""The lines that load a model leave it as the worker measures it."""

from __future__ import annotations

import pathlib
from typing import Any

import builders
import pytest

from advisor.domain.model import FactoryModel
from advisor.recipes.loading import loading_lines


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
