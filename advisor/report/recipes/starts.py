"""Compose the scripts with which an arm starts in a new process, by each way that its stack offers.

They are run as they are printed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from advisor.domain.measurement import CACHE_DIRECTORY, COLD, StartScripts
from advisor.domain.question import Question
from advisor.report.recipes.snippet import compose_snippet
from probes.wire.facts import InputFacts, StartLines


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
    """Return the number of lines of code that `new` has and `old` has not, imports excepted."""
    lines = set(new.splitlines()) - set(old.splitlines())
    return sum(not line.lstrip().startswith(("#", "import ")) for line in lines if line.strip())


def without_unused(script: str) -> str:
    """Return the script without top-level statements that only make what no later one reads.

    A start from a file does without the model.
    """
    lines, needed = script.splitlines(keepends=True), {"output", "tokens"}
    dropped = set[int]()
    for statement in reversed(ast.parse(script).body):
        made = _names_made(statement)
        if made and not made & needed:
            dropped |= set(range(statement.lineno, (statement.end_lineno or 0) + 1))
        else:
            needed |= _names_read(statement)
    kept = [line for number, line in enumerate(lines, start=1) if number not in dropped]
    return "".join(kept)


def _names_read(statement: ast.stmt) -> set[str]:
    """Return the names in a statement, also those in the functions that it defines."""
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _names_made(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds or changes; none of one that may do more."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {(each.asname or each.name).partition(".")[0] for each in names}
        case ast.Assign(targets=targets):
            parts = [node for target in targets for node in ast.walk(target)]
            return {node.id for node in parts if isinstance(node, ast.Name)}
        case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):
            return _root(method)
        case ast.For(iter=each, body=body):
            return _root(each).union(*map(_names_made, body))
        case ast.If(body=body, orelse=orelse):
            return set[str]().union(*map(_names_made, (*body, *orelse)))
        case _:
            return set()


def _root(expression: ast.expr) -> set[str]:
    """Return the name with which an expression begins."""
    names = [node for node in ast.walk(expression) if isinstance(node, ast.Name)]
    first = min(names, key=lambda node: (node.lineno, node.col_offset), default=None)
    return {first.id} if first and first.col_offset == expression.col_offset else set()
