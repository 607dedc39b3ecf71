"""Render the snippet of an arm: its lines below a header with pinned requirements.

A run may come from another machine, so its requirements are checked before they become part of the
header.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence

from advisor.domain.accuracy import worst_error
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import Cell
from advisor.errors import NoRecipeError
from advisor.recipes.snippet import compose_snippet
from advisor.report.answer import caveats
from advisor.report.formatting import format_error
from advisor.report.recipes.found_recipe import FoundRecipe
from advisor.report.setup_facts import describe_shapes
from advisor.system.number_format import format_interval
from probes.wire.shape import Shape

PINNED = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[a-z0-9-]+(?:,[a-z0-9-]+)*\])?==[0-9][A-Za-z0-9._!]*"
)
PYTHON = re.compile(r"==3\.[0-9]+\.\*")
IMPORTED = re.compile(r"^ *(?:import|from) (\w+)", re.MULTILINE)
#: Characters of a line in the docstring of a snippet.
DOCSTRING_WIDTH = 100


def shadows_import(name: str, text: str, found: FoundRecipe) -> bool:
    """Return whether a script of this name would be imported instead of a module that it needs.

    Python searches the script's directory first.
    """
    installed = {
        re.split(r"==|\[", requirement)[0].replace("-", "_") for requirement in found.requirements
    }
    needed = {*IMPORTED.findall(text), *installed, *sys.stdlib_module_names}
    return name.removesuffix(".py") in needed


def snippet_cell(arm: RankedArm) -> Cell | None:
    """Return the figures of the snippet: the longest lengths, at the batch size that gains most."""
    longest = [cell for cell in arm.cells if cell.shape.lengths == arm.cells[-1].shape.lengths]
    return max(longest, key=lambda cell: cell.speedup.value, default=None)


def render_snippet(
    answer: Answer, entry: RankedArm, found: FoundRecipe, shape: Shape | None = None
) -> str:
    """Return the snippet; raise `NoRecipeError` where the model has none.

    Without a `shape` it has that of `snippet_cell`.
    """
    question, best = answer.question, snippet_cell(entry)
    shape = shape or (best.shape if best else question.shapes[0])
    cell = next((each for each in entry.cells if each.shape == shape), None)
    body = compose_snippet(question, shape.batch_size, found.integration, found.inputs)
    speed = (
        f": {format_interval(cell.speedup)} as fast as eager PyTorch"
        if cell and entry.arm != answer.results.baseline
        else ""
    )
    error = worst_error(entry.measured.correctness) if entry.measured else None
    loss = f" Its weights are quantised to {entry.scored.weights}" if entry.scored.weights else ""
    loss += f"; error of the outputs {format_error(error)}." if loss and error is not None else ""
    precision = "the model's own precision" if question.dtype == "native" else question.dtype
    shapes = describe_shapes(answer, [shape])
    title = f"{entry.arm} at {shapes} in {precision} on {answer.device_name}{speed}."
    title = " ".join([title + loss, *caveats(answer)])
    return f'''\
{script_header(found)}
"""{textwrap.fill(clean(title), DOCSTRING_WIDTH)}

{install_command(question.device)}
"""

{body}'''


def install_command(device: str) -> str:
    """Return the command that makes the environment of a script and runs it."""
    if device == "cpu":
        return "uv venv && uv pip install --torch-backend cpu -r FILE && .venv/bin/python FILE"
    return "uv run FILE"


def script_header(found: FoundRecipe, additional: Sequence[str] = ()) -> str:
    """Return the header of PEP 723; raise `NoRecipeError` for requirements that are not pinned.

    `additional` requirements are the program's own.
    """
    if not PYTHON.fullmatch(found.python) or not all(map(PINNED.fullmatch, found.requirements)):
        raise NoRecipeError(
            "the stored recipe asks for a requirement that is not pinned", "measure again"
        )
    requirements = "\n".join(
        f'#     "{requirement}",' for requirement in (*found.requirements, *additional)
    )
    return f"""\
# /// script
# requires-python = "{found.python}"
# dependencies = [
{requirements}
# ]
# ///"""


def clean(text: str) -> str:
    """Return the text without characters that could end a docstring or a line."""
    return "".join(
        character if character.isprintable() and character not in '"\\' else "'"
        for character in text
    )
