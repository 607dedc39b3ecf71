"""The scripts of the ways to start: what they leave out, and how many lines they change."""

from __future__ import annotations

import builders
import pytest

from advisor.domain.measurement import CACHE_DIRECTORY, COLD
from advisor.recipes.starts import compose_starts, without_unused
from probes.wire.events import StartLines

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
