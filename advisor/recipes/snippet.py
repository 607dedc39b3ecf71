"""Compose the snippet: load the model, compile it as it was measured, call it.

It has the lines of the workflow's own `integration`, which the worker that was measured reported.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from advisor.domain.errors import NoRecipeError
from advisor.domain.measurement import CACHE_DIRECTORY, COLD
from advisor.domain.model import OnnxModel
from advisor.domain.question import Question
from advisor.recipes.calls import (
    call_class,
    cast_lines,
    checkpoint_prompt_lines,
    file_name,
    file_stem,
    nested_call,
    quoted,
)
from advisor.recipes.loading import loading_lines
from probes.events import SnippetFacts
from probes.facts import EACH_CALL, InputSpec

#: Packages that the lines may use, and how they are imported.
USED_PACKAGES = (
    "collections.abc",
    "dataclasses",
    "numpy",
    "onnxruntime",
    "os",
    "runpy",
    "tokenizers",
    "torch",
    "transformers",
)
#: The line that switches TF32 off: PyTorch uses it in convolutions on a GPU by default, and the
#: arms were measured without it.
WITHOUT_TF32 = "torch.backends.cudnn.allow_tf32 = False  # as measured"
#: The line that keeps freed memory: without it glibc returns the memory of outputs to the kernel
#: after each call. On a CPU all arms were measured after it.
KEEPS_MEMORY = "bytearray(31 * 2**20)  # keeps freed memory: eager was timed with it too"
#: Name of the checkpoint in the lines of a workflow that opens it itself.
CHECKPOINT = "CHECKPOINT"
#: What the user has to make for an ONNX file.
ITS_INPUTS = "inputs: a tensor for each of its inputs"
IMPORT_TORCH = "import torch"
#: How the lines of workflows call a program with all inputs.
POSITIONAL = "(*inputs)"
#: How the lines of workflows name the files that they write, and what frees the batch in them.
WRITTEN, FREE_BATCH = re.compile(r'"(?:model|(quantised))(?=\.\w)'), "torch.export.Dim."
MAIN_GUARD = 'if __name__ == "__main__":  # engines start processes that import this file'


def compose_snippet(
    question: Question,
    batch_size: int,
    integration: str,
    inputs: Sequence[InputSpec] | None = None,
    cast: Sequence[str] | None = None,
) -> str:
    """Return the snippet, with reported `inputs`; raise `NoRecipeError` if there are no lines."""
    if not integration:
        raise NoRecipeError("the run does not have the lines of this workflow", "measure again")
    integration = name_files(integration, question, batch_size)
    imports, steps = split_imports(integration)
    is_engine = False
    if CHECKPOINT in _names_read(parse(integration)):
        is_engine = IMPORT_TORCH not in imports
        lines = checkpoint_prompt_lines(question, batch_size, prompts_on_device=not is_engine)
    else:
        lines = loading_lines(question, batch_size, inputs, cast)
    text = "\n".join(lines)
    loaded_imports, loading = split_imports(text)
    used = [f"import {name}" for name in USED_PACKAGES if f"{name}." in text]
    lines_of_imports = {*imports, *loaded_imports, *used}
    needed = sorted(lines_of_imports, key=lambda line: (line.startswith("from "), line))
    if question.device == "cpu" and not is_engine:
        loading = [*loading, KEEPS_MEMORY]
    if question.device == "cuda" and question.dtype in {"float32", "own"} and not is_engine:
        loading = [WITHOUT_TF32, *loading] if IMPORT_TORCH in needed else loading
    program = strip_blank([*loading, "", *steps])
    if is_engine:
        program = [MAIN_GUARD, indent("\n".join(program), 4)]
    body = "\n".join([*needed, "", *program]).strip() + "\n"
    parse(body)
    return body


def compose_reported(
    question: Question, batch_size: int, facts: SnippetFacts, lines: str | None = None
) -> str:
    """Return the snippet with `lines`, by default those of the workflow, and what else is reported.

    Raise `NoRecipeError` if there are none.
    """
    return compose_snippet(
        question,
        batch_size,
        facts.integration if lines is None else lines,
        facts.inputs,
        cast_lines(question, complex_weights=facts.complex_weights, fixed_mode=facts.fixed_mode),
    )


def parse(source: str) -> ast.Module:
    """Parse lines that a stack reported, or that have names of a user's files in them."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as problem:
        raise NoRecipeError("the lines of the run are no Python", "measure again") from problem


def name_files(lines: str, question: Question, batch_size: int, free: str = "") -> str:
    """Return the lines with names of files that tell model, precision and batch size.

    They replace no file of another model. The batch is free if `lines` or `free` say so. Files of
    engines keep their names, which commands of servers have too.
    """
    if question.task != "forward":
        return lines
    rows = "any" if FREE_BATCH in lines + free else batch_size
    dtype = f"-{question.dtype}" if question.dtype != "own" else ""
    stem = f"{file_stem(question.model)}{dtype}-batch-{rows}"
    return WRITTEN.sub(lambda found: f'"{stem}{"-quantised" if found[1] else ""}', lines)


def lines_for(question: Question, integration: str, batch_size: int) -> str:
    """Return the lines; for an ONNX file, which no code of the user opens, with its path."""
    model, integration = question.model, name_files(integration, question, batch_size)
    if not isinstance(model, OnnxModel):
        return integration
    imports, steps = list[str](), integration.splitlines()
    # A file from another machine could have anything else here.
    with contextlib.suppress(NoRecipeError):
        imports, steps = split_imports(integration)
    named = f"model = {quoted(file_name(model.name))}  # path of your file; {ITS_INPUTS}"
    if not any("torch." in line for line in steps):
        imports = [line for line in imports if line != IMPORT_TORCH]
    return "\n".join([*imports, "", named, *steps]) + "\n"


#: Above lines that need a module around the model.
NEEDS_WRAPPER = "# model needs a wrapper for its inputs: p3-advisor recipe RUN prints it"


def call_as_given(question: Question, integration: str, inputs: Sequence[InputSpec]) -> str:
    """Return the lines with the user's own call of a model that takes named or nested inputs.

    The whole snippet has a module around the model, which takes the tensors in their order. Lines
    that need this order say so. Those of ONNX files and texts take no inputs of a model.
    """
    if isinstance(question.model, OnnxModel) or question.task != "forward":
        return integration
    if needs_order(integration, inputs):
        return f"{NEEDS_WRAPPER}\n{integration}"
    is_named = any(each.name for each in inputs)
    return integration.replace(POSITIONAL, "(**inputs)") if is_named else integration


def needs_order(integration: str, inputs: Sequence[InputSpec]) -> bool:
    """Return whether the lines take the tensors of named or nested inputs in their order."""
    has_other_uses = "inputs" in integration.replace(POSITIONAL, "")
    return any(each.nested or (each.name and has_other_uses) for each in inputs)


def count_wrapper_lines(integration: str, inputs: Sequence[InputSpec]) -> int:
    """Return the lines that make and use the module around a user's model; 0 without one."""
    if not needs_order(integration, inputs):
        return 0
    is_nested = any(each.nested for each in inputs)
    # A file from another machine could have names that are not identifiers.
    with contextlib.suppress(NoRecipeError):
        lines = nested_call(len(inputs)) if is_nested else call_class("Call", inputs)
        return sum(map(bool, lines)) + 1
    return 0


def shorten(integration: str, most: float, part: int, known: str = IMPORT_TORCH) -> list[str]:
    """Return all lines, without comments and checks if they are more than `most`.

    If they are still more, return whole statements, and a comment in place of the others, in at
    most `part` lines. The line `known` is left out: the user's code has it.
    """
    note, _, rest = integration.partition("\n")
    if note.startswith("#") and not EACH_CALL.match(f"{note}\n"):
        # It says what `model` and `inputs` are, and is one line more.
        return [note, *shorten(rest, most, part, known)]
    every = dict(enumerate(integration.splitlines(), start=1))
    lines = {number: line for number, line in every.items() if line and line != known}
    first = next((number for number in lines if EACH_CALL.match(f"{lines[number]}\n")), 0)
    comments = {each for each in lines if lines[each].lstrip().startswith("#")}
    checks = {each for each in lines if lines[each].startswith("assert ")}
    for left_out in (set[int](), comments - {first}, comments, comments | checks):
        if len(lines) - len(left_out) <= most:
            return [line for number, line in lines.items() if number not in left_out]
    imports = {each for each in lines if lines[each].startswith(("import ", "from "))}
    statements = list[ast.stmt]()
    # A file from another machine could have anything else here.
    with contextlib.suppress(NoRecipeError):
        statements = parse(integration).body
    calls = [each for each in lines if first and each >= first]
    calls = calls if len(calls) < part else []
    steps = sorted(lines.keys() - comments - checks - imports - {*calls})
    shown = list[int]()
    for statement in reversed(statements) if calls else statements:
        whole = [each for each in steps if statement.lineno <= each <= (statement.end_lineno or 0)]
        if len(shown) + len(whole) > part - 1 - len(calls):
            break
        shown = sorted([*shown, *whole])
    left = len(lines.keys() - comments - {*shown, *calls})
    gap = [f"# {left} more lines, which p3-advisor recipe prints"]
    before, after = (gap, []) if calls else ([], gap)
    return [*before, *(lines[each] for each in shown), *after, *(lines[each] for each in calls)]


def indent(source: str, spaces: int) -> str:
    """Return the source as the body of a block; the text of literals stays as it is."""
    inside_literals = {
        number
        for node in ast.walk(parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for number in range(node.lineno, node.end_lineno or node.lineno)
    }
    return "\n".join(
        line if number in inside_literals or not line else " " * spaces + line
        for number, line in enumerate(source.splitlines())
    )


def split_imports(source: str) -> tuple[list[str], list[str]]:
    """Return the import lines above all other statements, and the other lines.

    Other imports stay where they are: a variable may have to be set before them.
    """
    lines = source.splitlines()
    leading = itertools.takewhile(
        lambda node: isinstance(node, (ast.Import, ast.ImportFrom)), parse(source).body
    )
    positions = {node.lineno - 1 for node in leading}
    imports = [line for number, line in enumerate(lines) if number in positions]
    steps = [line for number, line in enumerate(lines) if number not in positions]
    return imports, strip_blank(steps)


def imported_packages(source: str) -> set[str]:
    packages: set[str] = set()
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Import):
            packages |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            packages.add(node.module or "")
    return {name.partition(".")[0] for name in packages}


def strip_blank(lines: Sequence[str]) -> list[str]:
    return "\n".join(lines).strip("\n").splitlines()


class StartScripts(NamedTuple):
    """The scripts of one way."""

    way: str
    #: Snippet that starts from the caches or the file, and calls.
    start: str
    #: Snippet that writes the shipped file in an earlier process; empty if no file is shipped.
    write: str = ""
    #: Lines of that snippet that follow the first call of the cold start; empty if it has no such
    #: call.
    saves: str = ""
    #: Lines that differ from those of the cold start.
    lines: int = 0


def compose_starts(question: Question, size: int, facts: SnippetFacts) -> list[StartScripts]:
    """Return the scripts, those without anything first; raise `NoRecipeError` where none are."""
    integration = facts.integration
    cold = compose_reported(question, size, facts)
    found = [StartScripts(COLD, cold), StartScripts(CACHE_DIRECTORY, cold)]
    for way, lines in facts.starts.items():
        start, written, saves = (
            name_files(each, question, size, integration)
            for each in (lines.start, lines.write, lines.saves)
        )
        start = without_unused(compose_reported(question, size, facts, start))
        written = compose_reported(question, size, facts, written) if written else ""
        new = set((lines.start + lines.write + lines.saves).splitlines())
        changed = sum(
            not line.lstrip().startswith(("#", "import "))
            for line in new.difference(integration.splitlines())
            if line.strip()
        )
        write = f"{cold}\n{saves}" if saves else written
        found.append(StartScripts(way, start, write, saves, changed))
    return found


def without_unused(script: str) -> str:
    """Return the script without top-level statements that only make what no later one reads.

    A start from a file does without the model.
    """
    lines, needed = script.splitlines(keepends=True), {"output", "tokens"}
    dropped = set[int]()
    for statement in reversed(parse(script).body):
        made = _names_made(statement)
        if made and not made & needed:
            dropped |= set(range(statement.lineno, (statement.end_lineno or 0) + 1))
        else:
            needed |= _names_read(statement)
    return "".join([line for number, line in enumerate(lines, start=1) if number not in dropped])


def _names_read(code: ast.AST) -> set[str]:
    return {
        node.id
        for node in ast.walk(code)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _names_made(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds or changes; none of one that may do more."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {(each.asname or each.name).partition(".")[0] for each in names}
        case _ if "os.environ" in ast.unparse(statement):
            # A later statement may read the variable, which no name shows.
            return set()
        case ast.Assign(targets=targets):
            parts = [node for target in targets for node in ast.walk(target)]
            return {node.id for node in parts if isinstance(node, ast.Name)}
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="eval"))):
            return {name}
        case ast.If(body=body, orelse=orelse):
            made = [*map(_names_made, (*body, *orelse))]
            return set[str]().union(*made) if all(made) else set()
        case _:
            return set()
