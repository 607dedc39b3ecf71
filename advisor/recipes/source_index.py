"""Parse the source of `probes`: definitions, imports, references, and their positions."""

from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeGuard

PACKAGE = "probes"

#: A definition: its module and its name there.
Definition = tuple[str, str]
#: An expression that is read, and the names that the functions around it bind.
Reference = tuple["ast.Name | ast.Attribute", frozenset[str]]
#: A change to the text of a module: first byte, byte after the last, replacement.
Edit = tuple[int, int, str]


@dataclasses.dataclass(frozen=True)
class Module:
    """One parsed module of the package."""

    name: str
    text: bytes
    #: Offset in bytes of each line.
    line_offsets: tuple[int, ...]
    definitions: dict[str, ast.stmt]
    #: Imported names: of modules of the package, of definitions in them, and of anything else with
    #: the line that imports it.
    modules: dict[str, str]
    members: dict[str, Definition]
    foreign_imports: dict[str, str]

    def span(self, node: ast.expr | ast.stmt | ast.arg) -> tuple[int, int]:
        """Return the offset in bytes of the node's start and end."""
        return self._offset(node.lineno, node.col_offset), self._offset(
            node.end_lineno or 0, node.end_col_offset or 0
        )

    def _offset(self, line: int, column: int) -> int:
        return self.line_offsets[line - 1] + column


@functools.cache
def read_module(name: str, file: pathlib.Path, probes: pathlib.Path) -> Module:
    """Parse `file` as the module `name` of the package in the directory `probes`.

    The result is cached for the life of the process.
    """
    text = file.read_bytes()
    offsets = [0]
    for line in text.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    module = Module(name, text, tuple(offsets), {}, {}, {}, {})
    tree = ast.parse(text)
    for nested in ast.walk(tree):
        if imports_package(nested):
            _index_import(module, nested, probes)
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            _index_import(module, statement, probes)
        elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            module.definitions[statement.name] = statement
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            module.definitions.update(
                {target.id: statement for target in targets if isinstance(target, ast.Name)}
            )
    return module


def imports_package(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    """Return whether a statement imports from the package, at any depth."""
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE


def module_file(name: str, probes: pathlib.Path) -> pathlib.Path:
    """Return the file of the module `name` of the package in `probes`."""
    return probes.joinpath(*name.split(".")[1:]).with_suffix(".py")


def _index_import(
    module: Module, statement: ast.Import | ast.ImportFrom, probes: pathlib.Path
) -> None:
    for alias in statement.names:
        bound = alias.asname or alias.name.partition(".")[0]
        renamed = f" as {alias.asname}" if alias.asname else ""
        if isinstance(statement, ast.Import):
            module.foreign_imports[bound] = f"import {alias.name}{renamed}"
        elif not (statement.module or "").startswith(PACKAGE):
            module.foreign_imports[bound] = f"from {statement.module} import {alias.name}{renamed}"
        elif module_file(f"{statement.module}.{alias.name}", probes).is_file():
            module.modules[bound] = f"{statement.module}.{alias.name}"
        else:
            module.members[bound] = (statement.module or "", alias.name)


def is_omitted(node: ast.AST, conditions: Mapping[str, bool]) -> bool:
    """Return whether the statement is an `if` whose test is known to be false.

    `conditions` maps tests of `if` statements to their values in the script.
    """
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and conditions.get(ast.unparse(node.test)) is False
    )


def reachable_statements(
    body: Sequence[ast.stmt], conditions: Mapping[str, bool]
) -> list[ast.stmt]:
    """Return the statements of a function up to the first that is known to return or raise."""
    for count, node in enumerate(body, start=1):
        if (
            isinstance(node, ast.If)
            and conditions.get(ast.unparse(node.test)) is True
            and isinstance(node.body[-1], (ast.Return, ast.Raise))
        ):
            return list(body[:count])
    return list(body)


def references(
    node: ast.AST, bound: frozenset[str], modules: Collection[str], conditions: Mapping[str, bool]
) -> Iterator[Reference]:
    """Yield the names below `node` that refer outside of it, and the attributes of `modules`.

    Each comes with the names that are bound at its place. Statements that the `conditions` make
    unreachable are left out.
    """
    if is_omitted(node, conditions):
        return
    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        outside: list[ast.AST] = [
            *node.args.defaults,
            *(default for default in node.args.kw_defaults if default is not None),
        ]
        outside += node.decorator_list if isinstance(node, ast.FunctionDef) else []
        for each in outside:
            yield from references(each, bound, modules, conditions)
        inside = bound | bound_names(node)
        for statement in (
            reachable_statements(node.body, conditions)
            if isinstance(node, ast.FunctionDef)
            else [node.body]
        ):
            yield from references(statement, inside, modules, conditions)
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
            yield from references(child, bound, modules, conditions)


def bound_names(function: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """Return the names that a function binds anywhere in it."""
    arguments = function.args
    parameters = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    names = {parameter.arg for parameter in parameters if parameter is not None}
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
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and not imports_package(node):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return frozenset(names)


def annotation_removals(module: Module, statement: ast.stmt) -> Iterator[Edit]:
    """Yield the edits that remove the annotations of every function below `statement`."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.returns is not None:
            first, last = module.span(node.returns)
            yield module.text.rindex(b" ->", 0, first), last, ""
        for parameter, default in _parameters(node.args):
            if parameter.annotation is not None:
                first = module.span(parameter)[0] + len(parameter.arg.encode())
                last = (
                    module.span(parameter.annotation)[1]
                    if default is None
                    else module.span(default)[0]
                )
                yield first, last, "" if default is None else "="


def _parameters(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield every parameter with its default, or None for a required one."""
    positional = [*arguments.posonlyargs, *arguments.args]
    required: Sequence[None] = [None] * (len(positional) - len(arguments.defaults))
    yield from zip(positional, [*required, *arguments.defaults], strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    for parameter in (arguments.vararg, arguments.kwarg):
        if parameter is not None:
            yield parameter, None
