"""Find the recipe of an arm by its name, and render its snippet or its server."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import textwrap
from collections.abc import Sequence

from advisor.ask.catalogue_files import read_shipped
from advisor.domain.accuracy import worst_error
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.errors import NoRecipeError
from advisor.domain.model import TransformersModel
from advisor.domain.text import format_interval, format_seconds, write_speedup
from advisor.recipes import server, snippet
from advisor.recipes.arm_recipe import ArmRecipe, find_recipe
from advisor.report.answer_lines import caveats, unfit_notice
from advisor.report.cost import is_fixed
from advisor.report.formatting import format_error
from advisor.report.ranking import find_arms
from advisor.report.setup_facts import describe_shapes
from advisor.store.runs import Run
from probes.shape import Shape


def choose_recipe(
    answer: Answer, run: Run | None, name: str, batch_size: int | None = None
) -> tuple[RankedArm, ArmRecipe]:
    """Return the arm of this name, the recommended one for an empty name, with its recipe.

    The arm has its figures at `batch_size` alone, if it is given. Without the run the recipe has
    the lines of the answer. Raise `NoRecipeError` where there is none.
    """
    catalogue = run.header().catalogue if run else read_shipped()
    has_choice = bool(name) or answer.recommendation is not None
    for ranked in find_arms(answer, name, catalogue.by_id) if has_choice else ():
        if not isinstance(ranked, RankedArm):
            continue
        served = answer.served.get(ranked.arm)
        lines = ArmRecipe(
            allowances={},
            integration=ranked.measured.integration,
            serving_command=served.command if served else None,
        )
        recipe = find_recipe(run, ranked.arm) if run else lines
        if recipe is not None and (run or recipe.integration or recipe.serving_command):
            return (ranked if batch_size is None else ranked.at(batch_size)), recipe
    raise _no_recipe(answer, name)


def _no_recipe(answer: Answer, name: str) -> NoRecipeError:
    available = [each.arm for each in answer.ranking if each.measured.integration]
    problem = answer.problem
    what = f"no recipe is stored for {name or 'the recommended workflow'}"
    next_step = "measure it with this version"
    if not name and answer.recommendation is None:
        reason = f": {problem.what}" if problem else ""
        what = f"run {answer.run_id} has no recommendation{reason}"
        next_step = "measure again, or name another run: p3-advisor history lists them"
    if not answer.finished:
        next_step = f"wait until the run ends, or go on: p3-advisor resume {answer.run_id}"
    elif available:
        next_step = f"name one of its arms: {', '.join(available)}"
    return NoRecipeError(what, next_step)


def render_server(answer: Answer, ranked: RankedArm, recipe: ArmRecipe) -> str:
    """Return the server; raise `NoRecipeError` for a workflow that has none."""
    if recipe.serving_command:
        return _render_command(answer, ranked, recipe)
    question = answer.question
    if question.task != "forward":
        raise NoRecipeError(
            f"{ranked.arm} has no server of its own",
            "name an engine, or compare servers: p3-advisor recommend --task serve",
        )
    fastest = max(ranked.cells, key=lambda cell: cell.throughput.value, default=None)
    size = fastest.shape.batch_size if fastest else question.batch_sizes[0]
    composed = snippet.compose_reported(question, size, recipe)
    is_batched = all(each.batched for each in recipe.inputs or ())
    joins_requests = size > 1 and is_batched and recipe.coupled_rows is False
    body = server.compose_server(composed, size, recipe.inputs, joins_requests=joins_requests)
    rows = "1 row" if joins_requests or size == 1 else f"{size} rows"
    title = f"Serve {question.model.name} with {ranked.arm}, {question.precision}."
    title = " ".join([title, *caveats(answer)])
    use = f"Up to {size} requests share a call" if joins_requests else "Each is a call of its own"
    return f'''\
{script_header(recipe, server.REQUIREMENTS)}
"""{textwrap.fill(clean(title), DOCSTRING_WIDTH)}

{install_command(question.device)} --port 8000

POST /predict takes {{"inputs": [...]}}: nested lists, {rows} of each input of the model. It
returns {{"outputs": [...]}}. {use}.
"""

{body}'''


def _render_command(answer: Answer, ranked: RankedArm, recipe: ArmRecipe) -> str:
    question, install = answer.question, ""
    if recipe.python:
        script_header(recipe)  # refuses what is not pinned
        install = f"# uv pip install {shlex.join(recipe.requirements)}\n"
    words = server.user_words(recipe.serving_command or "", question.model.name)
    command = shlex.join(words)
    title = (
        f"{question.model.name} with {ranked.arm} on {answer.device_name}, {question.precision}."
    )
    served, load = answer.served.get(ranked.arm), question.load
    if served is not None and served.goodput is not None and load is not None:
        rate = format_interval(served.goodput, unit=" requests/s", decimals=None)
        title += f" Measured under load: {rate} with {load.limits}."
    title = " ".join([title, *caveats(answer)])
    lines = textwrap.wrap(clean(title), DOCSTRING_WIDTH)
    comment = "".join(f"# {line}\n" for line in lines)
    length = "".join(f"{line}\n" for line in server.length_note(words))
    random = isinstance(question.model, TransformersModel) and question.model.weights == "random"
    note = "# The weights were random: write the directory of a checkpoint instead of the name.\n"
    return f"""\
#!/bin/sh
{comment}{length}{note if random else ""}{install}# sh server.sh --port 8000
exec {command} "$@"
"""


def render_short(answer: Answer, ranked: RankedArm, recipe: ArmRecipe) -> str:
    """Return the server that was under load, or the snippet; raise `NoRecipeError` without one.

    For an answer without its run, return the command, or the lines that adopt the arm.
    """
    if answer.question.serves:
        return render_server(answer, ranked, recipe)
    if not recipe.python:
        shape = answer.code_shape(ranked)
        lines = snippet.lines_for(answer.question, recipe.integration, shape.batch_size)
        inputs = answer.results.inputs.tensors if answer.results.inputs else ()
        lines = snippet.call_as_given(answer.question, lines, inputs)
        return f"{_docstring(answer, ranked, shape, ONLY_LINES)}\n\n{lines}"
    return render_snippet(answer, ranked, recipe)


def render_recommended(answer: Answer, run: Run | None) -> str | None:
    with contextlib.suppress(NoRecipeError):
        return render_short(answer, *choose_recipe(answer, run, ""))
    return None


PINNED = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[a-z0-9-]+(?:,[a-z0-9-]+)*\])?==[0-9][A-Za-z0-9._!]*"
)
PYTHON = re.compile(r"==3\.[0-9]+\.\*")
IMPORTED = re.compile(r"^ *(?:import|from) (\w+)", re.MULTILINE)
#: What a snippet says that builds again in every process, where a file can be kept instead.
ONCE = "It builds in every process: --style write does that once, and --style start uses its file."
#: What the code of an answer without its run says.
ONLY_LINES = (
    "The lines that adopt it: `model` and `inputs`, or CHECKPOINT and `prompts`, are yours. The "
    "whole code is composed from the run itself."
)
#: Characters of a line in the docstring of a snippet.
DOCSTRING_WIDTH = 100


def shadows_import(name: str, text: str, recipe: ArmRecipe) -> bool:
    """Return whether a script of this name would be imported instead of a module that it needs.

    Python searches the script's directory first.
    """
    installed = {
        re.split(r"==|\[", requirement)[0].replace("-", "_") for requirement in recipe.requirements
    }
    needed = {*IMPORTED.findall(text), *installed, *sys.stdlib_module_names}
    return name.removesuffix(".py") in needed


def render_snippet(
    answer: Answer, ranked: RankedArm, recipe: ArmRecipe, shape: Shape | None = None
) -> str:
    """Return the script for `shape`, by default `code_shape`, or raise `NoRecipeError`."""
    question, shape = answer.question, shape or answer.code_shape(ranked)
    body = snippet.compose_reported(question, shape.batch_size, recipe)
    how = ONCE if any(each.write for each in recipe.starts.values()) else ""
    if is_fixed(ranked) and len(question.shapes) > 1:
        how = f"It takes this shape only: --batch-size prints the code of another one. {how}"
    return _script(answer, ranked, recipe, shape, body, how)


def _script(
    answer: Answer, ranked: RankedArm, recipe: ArmRecipe, shape: Shape, body: str, start: str
) -> str:
    """Return the script with its head; `start` says what it does beside its calls."""
    install = f"\n{install_command(answer.question.device)}\n"
    return f"{script_header(recipe)}\n{_docstring(answer, ranked, shape, start, install)}\n\n{body}"


def _docstring(
    answer: Answer, ranked: RankedArm, shape: Shape, start: str, install: str = ""
) -> str:
    question = answer.question
    cell = next((each for each in ranked.cells if each.shape == shape), None)
    speed = ""
    if cell and ranked.arm != answer.results.baseline:
        unfit = bool(unfit_notice(answer))
        shown = write_speedup(cell.speedup, unfit=unfit, interval=True, in_words=True)
        speed = f": {shown} as fast as {answer.baseline_title}"
    error = worst_error(ranked.measured.correctness)
    loss = ""
    if ranked.scored.weight_format:
        loss = f" Its weights are quantised to {ranked.scored.weight_format}"
        loss += f"; error of the outputs {format_error(error)}." if error is not None else ""
    shapes = describe_shapes(answer, [shape])
    title = f"{ranked.arm} at {shapes} in {question.precision} on {answer.device_name}{speed}."
    title = " ".join([title + loss, start, *caveats(answer)])
    return f'"""{textwrap.fill(clean(title), DOCSTRING_WIDTH)}\n{install}"""'


def render_start(answer: Answer, ranked: RankedArm, recipe: ArmRecipe) -> str:
    scripts, how = _start_scripts(answer, ranked, recipe)
    if scripts.write:
        how += " The script of --style write has written it before, in the same folder."
    return _script(answer, ranked, recipe, answer.code_shape(ranked), scripts.start, how)


def render_write(answer: Answer, ranked: RankedArm, recipe: ArmRecipe) -> str:
    scripts, _ = _start_scripts(answer, ranked, recipe)
    if not scripts.write:
        raise NoRecipeError(
            f"{ranked.arm} starts fastest by {scripts.way}, for which no script writes anything",
            "use --style start",
        )
    how = "Writes the file that the script of --style start loads."
    return _script(answer, ranked, recipe, answer.code_shape(ranked), scripts.write, how)


def _start_scripts(
    answer: Answer, ranked: RankedArm, recipe: ArmRecipe
) -> tuple[snippet.StartScripts, str]:
    """Return the fastest start, or without a measured one the first from a file, and its time."""
    question, size = answer.question, answer.code_shape(ranked).batch_size
    scripts = snippet.compose_starts(question, size, recipe)
    fastest = ranked.measured.fastest_start
    if fastest is not None:
        timed = describe_shapes(answer, [question.start_shape])
        how = f"Starts with {fastest.title} in {format_seconds(fastest.seconds)} s at {timed}."
        return next(each for each in scripts if each.way == fastest.way), how
    from_file = next((each for each in scripts if each.write), None)
    if from_file is None:
        raise NoRecipeError(
            f"{ranked.arm} writes no file that a later process can load",
            "measure how it starts with p3-advisor recommend --cold-start",
        )
    return from_file, f"Starts by {from_file.way}; its start was not timed."


def install_command(device: str) -> str:
    if device == "cpu":
        return "uv venv && uv pip install --torch-backend cpu -r FILE && .venv/bin/python FILE"
    return "uv run FILE"


def script_header(recipe: ArmRecipe, additional: Sequence[str] = ()) -> str:
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


def clean(text: str) -> str:
    """Return the text without characters that could end a docstring or a line."""
    return "".join(
        character if character.isprintable() and character not in '"\\' else "'"
        for character in text
    )
