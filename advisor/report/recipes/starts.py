"""Compose the scripts with which an arm starts in a new process, by each way that its stack offers.

They are run as they are printed.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping, Sequence

from advisor.domain.measurement import CACHE_DIRECTORY, COLD, StartScripts
from advisor.domain.question import Question
from advisor.report.recipes.snippet import compose_snippet
from probes.wire.events import InputFacts, StartLines


def compose_starts(
    question: Question,
    integration: str,
    starts: Mapping[str, StartLines],
    inputs: Sequence[InputFacts] | None,
) -> list[StartScripts]:
    """Return the scripts, those without anything first; raise `NoRecipeError` where none are."""
    size = question.start_shape.batch_size
    cold = compose_snippet(question, size, integration, inputs)
    found = [StartScripts(COLD, cold), StartScripts(CACHE_DIRECTORY, cold)]
    for way, lines in starts.items():
        start = without_unused(compose_snippet(question, size, lines.start, inputs))
        written = compose_snippet(question, size, lines.write, inputs) if lines.write else ""
        changed = _count_new(integration, lines.start + lines.write + lines.saves)
        write = f"{cold}\n{lines.saves}" if lines.saves else written
        found.append(StartScripts(way, start, write, lines.saves, changed))
    return found


def _count_new(old: str, new: str) -> int:
    """Return the number of lines of code that `new` has and `old` has not."""
    added = (line[2:].strip() for line in difflib.ndiff(_code(old), _code(new)) if line[0] == "+")
    return sum(not line.startswith("import ") for line in added)


def _code(text: str) -> list[str]:
    return [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]


def without_unused(script: str) -> str:
    """Return the script without top-level statements that only make what no later one reads.

    A start from a file does without the model.
    """
    lines, needed = script.splitlines(keepends=True), {"output", "tokens"}
    dropped = set[int]()
    for statement in reversed(ast.parse(script).body):
        made = set(_names_made(statement))
        if made and not made & needed:
            dropped |= set(range(statement.lineno, (statement.end_lineno or 0) + 1))
        else:
            needed |= set(_names_read(statement))
    kept = [line for number, line in enumerate(lines, start=1) if number not in dropped]
    return "".join(kept)


def _names_read(statement: ast.stmt) -> Iterator[str]:
    """Yield the names in a statement, also those in the functions that it defines."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


def _names_made(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement defines, imports, assigns or changes; none for a call."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((each.asname or each.name).partition(".")[0] for each in names)
        case ast.Assign(targets=targets):
            for target in targets:
                yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
        case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):
            yield from _root(method)
        case ast.For(iter=each, body=body):
            yield from _root(each)
            for inner in body:
                yield from _names_made(inner)
        case ast.If(body=body, orelse=orelse):
            for inner in (*body, *orelse):
                yield from _names_made(inner)
        case _:
            pass


def _root(expression: ast.expr) -> Iterator[str]:
    """Yield the name whose attribute, or what that returns, an expression is."""
    while isinstance(expression, (ast.Attribute, ast.Call)):
        is_call = isinstance(expression, ast.Call)
        expression = expression.func if is_call else expression.value  # type: ignore[union-attr]
    if isinstance(expression, ast.Name):
        yield expression.id
