"""`recipe`: the script that does what was measured, with a head that pins what it needs and the figures it has to reach. Pure.

What the run stored is text from another process: its requirements are checked before they become a
header that tools obey.
"""

from __future__ import annotations

import pprint
import re
import sys

from advisor.domain.measurement import Cell
from advisor.domain.question import Factory
from advisor.domain.run_state import RunState
from advisor.domain.worker_events import Recipe
from advisor.errors import NoRecipeError
from advisor.report.document import RunDocument, WorkflowEntry
from advisor.report.explanation import find_entries
from advisor.report.table import device_name

PINNED = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[a-z0-9-]+(?:,[a-z0-9-]+)*\])?==[0-9][A-Za-z0-9._!]*"
)
PYTHON = re.compile(r"==3\.[0-9]+\.\*")
#: What the script sets variables of its environment with.
SETTER = "import os"

FORWARD_USAGE = (
    "    uv run serve.py                 make the environment above, build, check against eager, time",
    "    uv run serve.py --cache DIR     the same, keeping artefacts and compiler caches for the next start",
)
GENERATE_USAGE = (
    "    uv run serve.py                 make the environment above, build, generate, check against eager, time",
    "    uv run serve.py CHECKPOINT      the same with that directory or name on the hub",
    "    uv run serve.py --cache DIR     the same, keeping the checkpoint, artefacts and compiler caches for the next start",
)

#: Ends and value of a throughput.
Bounds = tuple[float | None, float, float | None]


def choose(document: RunDocument, state: RunState, name: str) -> tuple[WorkflowEntry, Recipe]:
    """Return the arm of this name, the recommended one for an empty name, with its recipe; raise `NoRecipeError` when there is none."""
    entry = next(
        (entry for entry in find_entries(document, name) if stored(state, entry.arm)), None
    )
    if entry is None:
        measured = [arm for arm in state.processes if stored(state, arm) and "#" not in arm]
        what = f"no recipe is stored for {name or 'the recommended workflow'}"
        raise NoRecipeError(
            what,
            f"use --workflow with one of {', '.join(measured)}"
            if measured
            else "measure it with this version",
        )
    recipe = stored(state, entry.arm)
    assert recipe is not None  # noqa: S101 - just looked at
    return entry, recipe


def stored(state: RunState, arm: str) -> Recipe | None:
    """Return the recipe that the arm's last process left."""
    return next(
        (process.recipe for process in reversed(state.processes.get(arm, ())) if process.recipe),
        None,
    )


def is_in_the_way(name: str, recipe: Recipe) -> bool:
    """Say whether a script `name` would be imported in place of a module that it needs: Python looks beside the script first."""
    imported = {line.split()[1].partition(".")[0] for line in recipe.imports}
    brought = {
        re.split(r"==|\[", requirement)[0].replace("-", "_") for requirement in recipe.requirements
    }
    return name.removesuffix(".py") in imported | brought | sys.stdlib_module_names


def recommended(document: RunDocument, state: RunState) -> str | None:
    """Return the script of the recommended arm; None without a recommendation, and where no recipe of it is stored."""
    advice = document.recommendation
    if advice is None or stored(state, advice.arm) is None:
        return None
    return render(document, *choose(document, state, ""))


def render(document: RunDocument, entry: WorkflowEntry, recipe: Recipe) -> str:
    """Return the whole script."""
    if not PYTHON.fullmatch(recipe.python) or not all(map(PINNED.fullmatch, recipe.requirements)):
        raise NoRecipeError(
            "the stored recipe asks for something that is no pinned requirement", "measure again"
        )
    requirements = "\n".join(f'#     "{requirement}",' for requirement in recipe.requirements)
    imports = "\n".join(
        line for line in recipe.imports if not (recipe.variables and line == SETTER)
    )
    measured = {cell.batch_size: throughput_bounds(cell) for cell in entry.cells}
    return f'''\
# /// script
# requires-python = "{recipe.python}"
# dependencies = [
{requirements}
# ]
# ///
"""{_clean(headline(document, entry))}

{describe(document, entry, recipe)}
"""

from __future__ import annotations

{set_first(recipe.variables)}{imports}

#: Throughput by batch size, with the ends of its 95 % interval.
MEASURED = {pprint.pformat(measured)}
{recipe.source}'''


def set_first(variables: dict[str, str]) -> str:
    """Return the lines that set variables of the environment before any stack is imported, which reads them then; nothing for none."""
    if not variables:
        return ""
    settings = "\n".join(
        f"os.environ.setdefault({name!r}, {value!r})" for name, value in variables.items()
    )
    return f"""\
{SETTER}

# As it was measured, and before the imports, for that is when they are read; what you have set
# yourself stays.
{settings}

"""


def headline(document: RunDocument, entry: WorkflowEntry) -> str:
    """Return what the script is."""
    return f"{document.question.model.name} with {entry.arm} on {device_name(document)}, as p3-advisor measured it."


def describe(document: RunDocument, entry: WorkflowEntry, recipe: Recipe) -> str:
    """Return the rest of the script's description."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(entry.versions.items()))
    lines = [
        f"Run {document.run_id} of {document.created}, p3-advisor {document.advisor_version}; {versions}.",
        *(_measured_line(cell) for cell in entry.cells),
        "",
        *(GENERATE_USAGE if document.question.task == "generate" else FORWARD_USAGE),
    ]
    if any(version.endswith("+cpu") for version in entry.versions.values()):
        lines += [
            "",
            "It was measured with the CPU build of torch; the default build works as well but brings gigabytes of CUDA.",
        ]
    if isinstance(document.question.model, Factory):
        lines += [
            "",
            "The factory is your own code: add what it imports to the dependencies above.",
        ]
    if recipe.serving_command:
        lines += ["", "As a server:", f"    {recipe.serving_command}"]
    if document.imported:
        lines += [
            "",
            "The run was made on another machine and imported: read this script before you run it.",
        ]
    return "\n".join(_clean(line) for line in lines)


def _measured_line(cell: Cell) -> str:
    low, value, high = throughput_bounds(cell)
    bounds = f"{low:,.4g} to {high:,.4g}" if low is not None and high is not None else "not bounded"
    return f"  batch size {cell.batch_size}: {value:,.4g} {cell.throughput.unit} (95 %: {bounds})"


def throughput_bounds(cell: Cell) -> Bounds:
    """Return the throughput with the ends that those of the seconds give."""
    value, seconds = cell.throughput.value, cell.seconds
    low = value * seconds.median / seconds.high if seconds.high else None
    high = value * seconds.median / seconds.low if seconds.low else None
    return low, value, high


def _clean(text: str) -> str:
    """Return the text with nothing in it that could end a docstring or a line."""
    return "".join(sign if sign.isprintable() and sign not in '"\\' else "'" for sign in text)
