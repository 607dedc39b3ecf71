"""The lines that the short answer shows of code that is too long for it."""

from __future__ import annotations

import pytest
from lazy import lazy

from advisor.recipes.snippet import shorten
from advisor.report.answer_lines import MOST_CODE_LINES

cuda_graphs = lazy("probes.stacks.cuda_graphs")

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
    shown = shorten(LONG, most)
    assert (shown[0], len(shown)) == (first, count)
    assert shown[-1] == "output = session.run(feeds)"
    assert "session = stack.Session(exported)" in shown
    assert ("# Each call:" in shown) == (most not in {7, 8})


def test_the_note_on_model_and_inputs_stays() -> None:
    note = "# model, inputs: as p3-advisor recipe prints them"
    for most in (20, 6, 3):
        assert shorten(f"{note}\n{LONG}", most) == [note, *shorten(LONG, most - 1)]


def test_a_call_that_is_too_long_leaves_room_for_the_lines_above_it() -> None:
    lines = ["import stack", "model = stack.load(model)", *LONG.splitlines()[7:]]
    gap = "# {} more lines, which p3-advisor recipe prints"
    assert shorten("\n".join(lines), 3) == [*lines[1:3], gap.format(4)]
    assert shorten(LONG, 3) == [gap.format(8)], "no statement fits"


@pytest.mark.stack
def test_the_lines_of_a_cuda_graph_are_all_shown() -> None:
    lines = cuda_graphs.integration("model(*inputs)")
    assert shorten(lines, MOST_CODE_LINES) == lines.splitlines()
