"""The scripts of ways to start in a new process."""

from __future__ import annotations

import importlib
import pathlib
import types

import builders
import pytest
import workers
from lazy import lazy

from advisor.domain.measurement import CACHE_DIRECTORY, COLD
from advisor.recipes.snippet import compose_starts, without_unused
from probes.facts import StartLines

torch = lazy("torch")

INTEGRATION = """\
import torch

compiled = torch.compile(model)
# Each call:
output = compiled(*inputs)
"""
FILE = StartLines(
    start="import torch\n\ncompiled = torch.load('f')\n# Each call:\noutput = compiled(*inputs)\n",
    write="import torch\n\ntorch.save(model, 'f')\n",
)
CACHE = StartLines(start=f"warm('f')\n{INTEGRATION}", saves="keep('f')\n")


@pytest.mark.parametrize(
    ("script", "kept"),
    [
        (
            "import a\nmodel = a.load()\ninputs = 1\noutput = inputs\n",
            "inputs = 1\noutput = inputs\n",
        ),
        ("model = 1\nfor part in model.all():\n    part.change()\noutput = 3\n", "output = 3\n"),
        ("model = 1\nfor part in model.all():\n    part.change()\noutput = model\n", None),
        ("model = 1\nmodel.eval()\nmodel.x = 2\noutput = 3\n", "output = 3\n"),
        ("def build():\n    return 1\n\n\nmodel = build()\ntokens = 4\n", "\n\ntokens = 4\n"),
        ("if a:\n    b = 1\nelse:\n    b = 2\noutput = b\n", None),
        ("import a\na.seed(0)\noutput = a.random()\n", None),
        ("with a:\n    b = 1\noutput = 2\n", None),
        ("x = 1\nprint(x)\noutput = 2\n", None),
    ],
)
def test_what_no_later_statement_reads_is_left_out(script: str, kept: str | None) -> None:
    assert without_unused(script) == (script if kept is None else kept)


def test_a_way_has_the_lines_that_write_its_file_and_those_that_begin_with_it() -> None:
    starts = {"file": FILE, "cache": CACHE}
    found = {
        each.way: each for each in compose_starts(builders.question(), INTEGRATION, starts, None)
    }
    assert list(found) == [COLD, CACHE_DIRECTORY, "file", "cache"]
    assert found[COLD].start == found[CACHE_DIRECTORY].start
    assert not found[COLD].write
    assert "model =" not in found["file"].start
    assert "model =" in found["file"].write
    assert "torch.save" in found["file"].write
    assert found["file"].lines == 2, "a line that loads and one that saves"
    assert found["cache"].lines == 2
    assert found["cache"].write.startswith(found[COLD].start)
    assert found["cache"].write.endswith("keep('f')\n")


@pytest.mark.stack
@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("torch_compile_inductor", {"cache-artifacts", "compiled-function", "regional"}),
        ("aotinductor", {"package"}),
        ("onnxruntime_cpu", {"onnx-file"}),
    ],
)
@pytest.mark.parametrize("options", [{"feeding": "host"}, {"feeding": "host", "dynamic": True}])
def test_the_ways_of_a_workflow_are_in_the_rubric_and_have_scripts(
    name: str, ways: set[str], options: dict[str, object]
) -> None:
    module = importlib.import_module(f"probes.workflows.{name}")
    request = workers.make_request(
        pathlib.Path(), pathlib.Path(), subject={"kind": "factory"}, options=options
    )
    blocks = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    starts = module.starts(types.SimpleNamespace(module=blocks), request)
    assert set(starts) == ways
    assert ways <= set(builders.shipped_catalogue().starts)
    found = compose_starts(builders.question(), module.integration(None, request), starts, None)
    for each in found[2:]:
        assert (each.lines > 0) == (each.way != "onnx-file"), "its lines are in two scripts"
        compile(each.start + each.write, name, "exec")
        assert ("model =" in each.start) == (each.way not in {"package", "onnx-file"})
