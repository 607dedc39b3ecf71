"""This package's own source, read as trees: what a module defines and imports, what a piece of it refers to, and where it stands."""

from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeGuard

HERE = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = "probes"

#: A definition: the module it stands in, and its name there.
Place = tuple[str, str]
#: Something that is read, and the names that functions around it bind.
Reference = tuple["ast.Name | ast.Attribute", frozenset[str]]


@dataclasses.dataclass(frozen=True)
class Module:
    """One module of this package, parsed."""

    name: str
    text: bytes
    #: Byte at which each line begins.
    lines: tuple[int, ...]
    definitions: dict[str, ast.stmt]
    #: Names that imports bind: to another module of the package, to a definition in one, or to a
    #: line that imports from elsewhere.
    modules: dict[str, str]
    members: dict[str, Place]
    elsewhere: dict[str, str]

    def offset(self, line: int, column: int) -> int:
        """Return the byte at a position of the tree."""
        return self.lines[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.arg) -> tuple[int, int]:
        """Return where a node begins and ends."""
        return self.offset(node.lineno, node.col_offset), self.offset(
            node.end_lineno or 0, node.end_col_offset or 0
        )


@functools.cache
def read_module(name: str, file: pathlib.Path) -> Module:
    """Parse `file` as the module `name`; once in a process, for a source does not change while it runs."""
    text = file.read_bytes()
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    module = Module(name, text, tuple(lines), {}, {}, {}, {})
    tree = ast.parse(text)
    for nested in ast.walk(tree):
        if is_ours(nested):
            _read_import(module, nested)
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            _read_import(module, statement)
        elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            module.definitions[statement.name] = statement
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            module.definitions.update(
                {target.id: statement for target in targets if isinstance(target, ast.Name)}
            )
    return module


def is_ours(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    """Say whether a statement imports from this package, in a function or not."""
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE


def _read_import(module: Module, statement: ast.Import | ast.ImportFrom) -> None:
    for alias in statement.names:
        bound = alias.asname or alias.name.partition(".")[0]
        renamed = f" as {alias.asname}" if alias.asname else ""
        if isinstance(statement, ast.Import):
            module.elsewhere[bound] = f"import {alias.name}{renamed}"
        elif not (statement.module or "").startswith(PACKAGE):
            module.elsewhere[bound] = f"from {statement.module} import {alias.name}{renamed}"
        elif HERE.joinpath(*(statement.module or "").split(".")[1:], f"{alias.name}.py").is_file():
            module.modules[bound] = f"{statement.module}.{alias.name}"
        else:
            module.members[bound] = (statement.module or "", alias.name)


def is_omitted(node: ast.AST, facts: Mapping[str, bool]) -> bool:
    """Say whether nothing of a statement is ever run; `facts` has tests of `if` statements and whether they hold."""
    return (
        isinstance(node, ast.If) and not node.orelse and facts.get(ast.unparse(node.test)) is False
    )


def reached(body: Sequence[ast.stmt], facts: Mapping[str, bool]) -> list[ast.stmt]:
    """Return the statements of a function up to the first that always returns."""
    for place, node in enumerate(body, start=1):
        if (
            isinstance(node, ast.If)
            and facts.get(ast.unparse(node.test)) is True
            and isinstance(node.body[-1], (ast.Return, ast.Raise))
        ):
            return list(body[:place])
    return list(body)


def references(
    node: ast.AST, bound: frozenset[str], modules: Collection[str], facts: Mapping[str, bool]
) -> Iterator[Reference]:
    """Yield what is read below `node` from outside of it, with the names that mean something else there.

    That are names that no function on the way binds, and attributes of `modules`; nothing that is
    never run, as `facts` have it.
    """
    if is_omitted(node, facts):
        return
    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        outside: list[ast.AST] = [
            *node.args.defaults,
            *(default for default in node.args.kw_defaults if default is not None),
        ]
        outside += node.decorator_list if isinstance(node, ast.FunctionDef) else []
        for each in outside:
            yield from references(each, bound, modules, facts)
        inside = bound | bound_by(node)
        for statement in (
            reached(node.body, facts) if isinstance(node, ast.FunctionDef) else [node.body]
        ):
            yield from references(statement, inside, modules, facts)
    elif (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in set(modules) - bound
    ):
        yield node, bound
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id not in bound:
            yield node, bound
    else:
        for child in ast.iter_child_nodes(node):
            yield from references(child, bound, modules, facts)


def bound_by(function: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """Return the names that a function binds anywhere in it."""
    arguments = function.args
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    names = {argument.arg for argument in every if argument is not None}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif (
            isinstance(
                node, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
            )
            and node is not function
        ):
            names.add(node.name or "")
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and not is_ours(node):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return frozenset(names)


def without_annotations(module: Module, statement: ast.stmt) -> Iterator[tuple[int, int, str]]:
    """Yield the edits that take the annotations off every function below `statement`."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.returns is not None:
            first, last = module.span(node.returns)
            yield module.text.rindex(b" ->", 0, first), last, ""
        positional = [*node.args.posonlyargs, *node.args.args]
        missing: Sequence[None] = [None] * (len(positional) - len(node.args.defaults))
        pairs = [
            *zip(positional, [*missing, *node.args.defaults], strict=True),
            *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
        ]
        pairs += [
            (argument, None)
            for argument in (node.args.vararg, node.args.kwarg)
            if argument is not None
        ]
        for argument, default in pairs:
            if argument.annotation is not None:
                first = module.span(argument)[0] + len(argument.arg.encode())
                last = (
                    module.span(argument.annotation)[1]
                    if default is None
                    else module.span(default)[0]
                )
                yield first, last, "" if default is None else "="
