"""Render the recipe of an arm: a script with pinned requirements and the measured throughput.

A run may come from another machine, so its requirements are checked before they become part of the
script's header.
"""

from __future__ import annotations

import pprint
import re
import sys
import textwrap
from collections.abc import Sequence

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.check_events import worst_error
from advisor.domain.interval import Interval
from advisor.domain.measurement import Cell
from advisor.domain.model import FactoryModel
from advisor.domain.worker_events import Recipe
from advisor.errors import NoRecipeError
from advisor.recipes.snippet import compose_snippet
from advisor.report.formatting.phrases import format_error
from advisor.report.recipes.found_recipe import SOURCE_CHANGED, FoundRecipe
from advisor.report.sections.answer import caveats
from advisor.report.sections.setup_facts import describe_sizes
from advisor.system.number_format import format_interval

PINNED = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[a-z0-9-]+(?:,[a-z0-9-]+)*\])?==[0-9][A-Za-z0-9._!]*"
)
PYTHON = re.compile(r"==3\.[0-9]+\.\*")
#: Characters of a line in the docstring of a snippet.
DOCSTRING_WIDTH = 100
#: The import that the script needs for setting environment variables.
OS_IMPORT = "import os"

#: Note for a script whose parts come from another machine.
RUN_IMPORTED = "The run was imported from another machine: read this script before using it."

FORWARD_USAGE = (
    "    uv run check.py               create that environment, build, check and time",
    "    uv run check.py --cache DIR   the same; artefacts and compiler caches stay in DIR",
)
GENERATE_USAGE = (
    "    uv run check.py               create that environment, build, generate, check and time",
    "    uv run check.py CHECKPOINT    the same with that directory or name on the hub",
    "    uv run check.py --cache DIR   the same; checkpoint, artefacts and caches stay in DIR",
)


def shadows_import(name: str, recipe: Recipe) -> bool:
    """Return whether a script of this name would be imported instead of a module that it needs.

    Python searches the script's directory first.
    """
    imported = {line.split()[1].partition(".")[0] for line in recipe.imports}
    installed = {
        re.split(r"==|\[", requirement)[0].replace("-", "_") for requirement in recipe.requirements
    }
    return name.removesuffix(".py") in imported | installed | sys.stdlib_module_names


def render(answer: Answer, entry: RankedArm, found: FoundRecipe) -> str:
    """Return the whole script.

    Raise `NoRecipeError` for a server, and for requirements that are not pinned.
    """
    recipe = found.recipe
    if not recipe.source:
        raise NoRecipeError(
            f"{entry.arm} was measured as a server, which no script checks",
            "use --style server, or measure it again with --task serve",
        )
    imports = "\n".join(
        line for line in recipe.imports if not (recipe.variables and line == OS_IMPORT)
    )
    intervals = {cell.batch_size: throughput_interval(cell) for cell in entry.cells}
    measured = {size: (each.low, each.value, each.high) for size, each in intervals.items()}
    return f'''\
{script_header(recipe)}
"""{clean(_title(answer, entry))}

{_description(answer, entry, found)}
"""

from __future__ import annotations

{_environment_lines(recipe.variables)}{imports}

#: Throughput by batch size: low end, value and high end of its 95 % interval.
MEASURED = {pprint.pformat(measured)}
{recipe.source}'''


def render_snippet(answer: Answer, entry: RankedArm, found: FoundRecipe) -> str:
    """Return the short recipe; raise `NoRecipeError` where the model has none."""
    question = answer.question
    fastest = max(entry.cells, key=lambda cell: cell.speedup.value) if entry.cells else None
    size = fastest.batch_size if fastest else question.batch_sizes[0]
    body = compose_snippet(question, size, found.integration, found.inputs)
    speed = (
        f": {format_interval(fastest.speedup)} as fast as eager PyTorch"
        if fastest and entry.arm != answer.results.baseline
        else ""
    )
    error = worst_error(entry.measured.correctness) if entry.measured else None
    loss = f" Its weights are quantised to {entry.scored.weights}" if entry.scored.weights else ""
    loss += f"; error of the outputs {format_error(error)}." if loss and error is not None else ""
    precision = "the model's own precision" if question.dtype == "native" else question.dtype
    shapes = describe_sizes(answer, [size])
    title = f"{entry.arm} at {shapes} in {precision} on {answer.device_name}{speed}."
    title = " ".join([title + loss, *caveats(answer)])
    return f'''\
{script_header(found.recipe)}
"""{textwrap.fill(clean(title), DOCSTRING_WIDTH)}

{install_command(question.device)}
"""

{body}'''


def install_command(device: str) -> str:
    """Return the command that makes the environment of a script and runs it."""
    if device == "cpu":
        return "uv venv && uv pip install --torch-backend cpu -r FILE && .venv/bin/python FILE"
    return "uv run FILE"


def script_header(recipe: Recipe, additional: Sequence[str] = ()) -> str:
    """Return the header of PEP 723; raise `NoRecipeError` for requirements that are not pinned.

    `additional` requirements are the program's own.
    """
    if not PYTHON.fullmatch(recipe.python) or not all(map(PINNED.fullmatch, recipe.requirements)):
        raise NoRecipeError(
            "the stored recipe asks for a requirement that is not pinned", "measure again"
        )
    requirements = "\n".join(
        f'#     "{requirement}",' for requirement in (*recipe.requirements, *additional)
    )
    return f"""\
# /// script
# requires-python = "{recipe.python}"
# dependencies = [
{requirements}
# ]
# ///"""


def _environment_lines(variables: dict[str, str]) -> str:
    """Return the lines that set environment variables before any stack is imported."""
    if not variables:
        return ""
    settings = "\n".join(
        f"os.environ.setdefault({name!r}, {value!r})" for name, value in variables.items()
    )
    return f"""\
{OS_IMPORT}

# The variables of the measurement. They are set before the imports, which read them; a variable
# that is already set keeps its value.
{settings}

"""


def _title(answer: Answer, entry: RankedArm) -> str:
    model, device = answer.question.model.name, answer.device_name
    return f"{model} with {entry.arm} on {device}, as p3-advisor measured it."


def _description(answer: Answer, entry: RankedArm, found: FoundRecipe) -> str:
    """Return the run, the measured figures, the usage and the notes."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(entry.versions.items()))
    version = answer.advisor_version
    lines = [
        f"Run {answer.run_id} of {answer.created}, p3-advisor {version}; {versions}.",
        *(_measured_line(answer, cell) for cell in entry.cells),
        "",
        *(GENERATE_USAGE if answer.question.task == "generate" else FORWARD_USAGE),
    ]
    for note in _notes(answer, entry, found):
        lines += ["", note]
    return "\n".join(clean(line) for line in lines)


def _notes(answer: Answer, entry: RankedArm, found: FoundRecipe) -> list[str]:
    notes = caveats(answer)
    if any(version.endswith("+cpu") for version in entry.versions.values()):
        notes.append(
            "The CPU build of torch was measured; the default build also works, "
            "but it installs gigabytes of CUDA libraries."
        )
    if isinstance(answer.question.model, FactoryModel):
        notes.append("The factory is your own code: add what it imports to the dependencies above.")
    if found.is_source_changed:
        notes.append(SOURCE_CHANGED)
    if answer.imported:
        notes.append(RUN_IMPORTED)
    return notes


def _measured_line(answer: Answer, cell: Cell) -> str:
    throughput = format_interval(throughput_interval(cell), unit="", decimals=None)
    shapes = describe_sizes(answer, [cell.batch_size])
    return f"  {shapes}: {throughput} {cell.throughput.unit}, 95 % interval"


def throughput_interval(cell: Cell) -> Interval:
    """Return the throughput with the bounds that follow from the interval of the seconds."""
    value, seconds = cell.throughput.value, cell.seconds
    return Interval(
        value=value,
        low=value * seconds.median / seconds.high if seconds.high else None,
        high=value * seconds.median / seconds.low if seconds.low else None,
    )


def clean(text: str) -> str:
    """Return the text without characters that could end a docstring or a line."""
    return "".join(
        character if character.isprintable() and character not in '"\\' else "'"
        for character in text
    )
