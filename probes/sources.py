"""Join pieces of this package's own source into one module: chosen functions and classes, and what they refer to, in order.

What is run and what is handed out are then the same text. Annotations of functions are left out, and so are comments meant for linters:
both speak of modules that the result does not have.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import pathlib
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TypeGuard

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = "probes"
#: Comments that silence a linter or type checker here: people who are handed the script do not run ours, and would wonder.
FOR_TOOLS = re.compile(rb" *# (?:noqa|type: ignore)\b.*$", re.MULTILINE)

#: A definition: the module it stands in, and its name there.
Place = tuple[str, str]
#: Something that is read, and the names that functions around it bind.
Reference = tuple["ast.Name | ast.Attribute", frozenset[str]]


class CannotJoinError(Exception):
    """The source refers to something that cannot be followed."""


@dataclasses.dataclass(frozen=True)
class Module:
    """One module of this package, parsed."""

    name: str
    text: bytes
    #: Byte at which each line begins.
    lines: tuple[int, ...]
    definitions: dict[str, ast.stmt]
    #: Names that imports bind: to another module of the package, to a definition in one, or to a line that imports from elsewhere.
    modules: dict[str, str]
    members: dict[str, Place]
    elsewhere: dict[str, str]

    def offset(self, line: int, column: int) -> int:
        """Return the byte at a position of the tree."""
        return self.lines[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.arg) -> tuple[int, int]:
        """Return where a node begins and ends."""
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno or 0, node.end_col_offset or 0)


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
            module.definitions.update({target.id: statement for target in targets if isinstance(target, ast.Name)})
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


class Joiner:
    """Collects definitions from the places it is asked for, dependencies first.

    `untrue` are tests of `if` statements that do not hold where the result is run: what stands below them is left out.
    """

    def __init__(
        self, files: dict[str, pathlib.Path] | None = None, *, kept_keys: dict[str, str] | None = None, untrue: Collection[str] = ()
    ) -> None:
        #: Modules that are not found by their name; and, for tables of which one entry is needed, its key by the table's name.
        self._files = files or {}
        self._kept_keys = kept_keys or {}
        self._untrue = frozenset(ast.unparse(ast.parse(test)) for test in untrue)
        self._modules: dict[str, Module] = {}
        self._names: dict[Place, str] = {}
        self._order: list[Place] = []
        self._imports: dict[str, set[str]] = {}
        #: Names that mean something else where a definition is referred to.
        self._hidden: dict[Place, set[str]] = {}

    def add(self, module: str, name: str) -> None:
        """Take the definition and all that it needs."""
        place = self._resolve((module, name))
        if place in self._names:
            return
        self._names[place] = ""
        for node, bound in self._references(place):
            self._follow(self._module(place[0]), node, bound)
        self._order.append(place)

    def name_of(self, module: str, name: str) -> str:
        """Return the name that a definition has in the result: its own, unless that means something else there."""
        place = self._resolve((module, name))
        if not self._names[place]:
            self._name_all()
        return self._names[place]

    def _name_all(self) -> None:
        taken = set(self._imports)
        for place in self._names:
            free = place[1] not in taken | self._hidden.get(place, set())
            self._names[place] = place[1] if free else f"{place[0].rpartition('.')[2]}_{place[1].lstrip('_')}"
            taken.add(self._names[place])

    def imports(self) -> list[str]:
        """Return the lines that import from elsewhere."""
        return sorted(set().union(*self._imports.values()), key=lambda line: (not line.startswith("import "), line))

    def definitions(self) -> str:
        """Return the source of everything that was added, two empty lines apart."""
        return "\n\n\n".join(self._render(place) for place in self._order)

    def _module(self, name: str) -> Module:
        if name not in self._modules:
            file = self._files.get(name) or HERE.joinpath(*name.split(".")[1:]).with_suffix(".py")
            self._modules[name] = read_module(name, file)
        return self._modules[name]

    def _resolve(self, place: Place) -> Place:
        """Follow imports and plain aliases to where something is defined."""
        module = self._module(place[0])
        if place[1] in module.members:
            return self._resolve(module.members[place[1]])
        statement = module.definitions.get(place[1])
        if statement is None:
            message = f"{place[0]} defines no {place[1]}"
            raise CannotJoinError(message)
        if isinstance(statement, ast.Assign):
            target = self._target(module, statement.value)
            if target is not None:
                return self._resolve(target)
        return place

    def _target(self, module: Module, node: ast.AST) -> Place | None:
        """Return the definition of this package that an expression names, if it names one."""
        if isinstance(node, ast.Name):
            if node.id in module.members:
                return module.members[node.id]
            return (module.name, node.id) if node.id in module.definitions else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in module.modules:
            return module.modules[node.value.id], node.attr
        return None

    def _follow(self, module: Module, node: ast.Name | ast.Attribute, bound: frozenset[str]) -> None:
        target = self._target(module, node)
        if target is not None:
            self._hidden.setdefault(self._resolve(target), set()).update(bound)
            self.add(*target)
        elif isinstance(node, ast.Name) and node.id in module.elsewhere:
            lines = self._imports.setdefault(node.id, set())
            lines.add(module.elsewhere[node.id])
            # `import a.b` and `import a.c` both bind `a`, and to the same.
            if len(lines) > 1 and not all(line.startswith(f"import {node.id}") and " as " not in line for line in lines):
                message = f"{node.id} means two things"
                raise CannotJoinError(message)
        elif isinstance(node, ast.Name) and node.id not in {*vars(builtins), "__file__"}:
            message = f"{module.name} uses {node.id}, which is no definition with a name of its own"
            raise CannotJoinError(message)

    def _statement(self, place: Place) -> ast.stmt:
        """Return the definition; of a table of which one entry is needed, that entry alone."""
        statement = self._module(place[0]).definitions[place[1]]
        kept = self._kept_keys.get(place[1])
        value = getattr(statement, "value", None)
        if kept is None or not isinstance(value, ast.Dict):
            return statement
        pairs = [
            (key, each) for key, each in zip(value.keys, value.values, strict=True) if isinstance(key, ast.Constant) and key.value == kept
        ]
        table = ast.Dict([key for key, _ in pairs], [each for _, each in pairs])
        return ast.copy_location(ast.Assign([ast.Name(place[1], ast.Store())], ast.copy_location(table, value)), statement)

    def _references(self, place: Place) -> Iterator[Reference]:
        modules = self._module(place[0]).modules
        yield from references(self._statement(place), frozenset(), modules, self._untrue)

    def _render(self, place: Place) -> str:
        module, statement = self._module(place[0]), self._statement(place)
        if statement is not module.definitions[place[1]]:
            text = ast.unparse(statement)  # an entry of a table
            for node, _ in self._references(place):
                text = text.replace(ast.unparse(node), self._new_name(module, node))
            return text
        start, end = module.span(statement)
        start = min([start, *(module.span(node)[0] - 1 for node in getattr(statement, "decorator_list", []))])
        start = _with_comments(module, start)
        edits = [*self._renamings(module, place), *without_annotations(module, statement), *self._omissions(module, statement)]
        edited = module.text
        for first, last, new in sorted(edits, reverse=True):
            edited = edited[:first] + new.encode() + edited[last:]
            end += len(new.encode()) - (last - first)
        return FOR_TOOLS.sub(b"", edited[start:end]).decode()

    def _omissions(self, module: Module, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        """Yield the edits that take out what does not hold here, and the imports of what the result defines itself."""
        for child in ast.iter_child_nodes(node):
            if is_ours(child) or is_omitted(child, self._untrue):
                last = child.end_lineno or 0  # type: ignore[attr-defined]
                last += not module.text[module.lines[last] : module.lines[last + 1]].strip() and is_ours(child)
                yield module.lines[child.lineno - 1], module.lines[last], ""  # type: ignore[attr-defined]
            else:
                yield from self._omissions(module, child)

    def _renamings(self, module: Module, place: Place) -> Iterator[tuple[int, int, str]]:
        statement = module.definitions[place[1]]
        name = self.name_of(*place)
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and name != place[1]:
            first, _ = module.span(statement)
            first = module.text.index(place[1].encode(), first)
            yield first, first + len(place[1].encode()), name
        for node, _ in self._references(place):
            new = self._new_name(module, node)
            if new != ast.unparse(node):
                yield (*module.span(node), new)
        if isinstance(statement, ast.Assign) and name != place[1]:
            yield (*module.span(statement.targets[0]), name)

    def _new_name(self, module: Module, node: ast.Name | ast.Attribute) -> str:
        target = self._target(module, node)
        return self.name_of(*target) if target is not None else ast.unparse(node)


def is_omitted(node: ast.AST, untrue: Collection[str]) -> bool:
    """Say whether nothing of a statement is ever run."""
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) in untrue


def references(node: ast.AST, bound: frozenset[str], modules: Collection[str], untrue: Collection[str] = ()) -> Iterator[Reference]:
    """Yield what is read below `node` from outside of it, with the names that mean something else there.

    That are names that no function on the way binds, and attributes of `modules`; nothing below tests that are `untrue`.
    """
    if is_omitted(node, untrue):
        return
    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        outside: list[ast.AST] = [*node.args.defaults, *(default for default in node.args.kw_defaults if default is not None)]
        outside += node.decorator_list if isinstance(node, ast.FunctionDef) else []
        for each in outside:
            yield from references(each, bound, modules, untrue)
        inside = bound | bound_by(node)
        for statement in node.body if isinstance(node, ast.FunctionDef) else [node.body]:
            yield from references(statement, inside, modules, untrue)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in set(modules) - bound:
        yield node, bound
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id not in bound:
            yield node, bound
    else:
        for child in ast.iter_child_nodes(node):
            yield from references(child, bound, modules, untrue)


def bound_by(function: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """Return the names that a function binds anywhere in it."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {argument.arg for argument in every if argument is not None}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node is not function:
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
        pairs += [(argument, None) for argument in (node.args.vararg, node.args.kwarg) if argument is not None]
        for argument, default in pairs:
            if argument.annotation is not None:
                first = module.span(argument)[0] + len(argument.arg.encode())
                last = module.span(argument.annotation)[1] if default is None else module.span(default)[0]
                yield first, last, "" if default is None else "="


def _with_comments(module: Module, start: int) -> int:
    """Return where the comment directly above a definition begins."""
    line = module.lines.index(start)
    while line and module.text[module.lines[line - 1] :].startswith(b"#"):
        line -= 1
    return module.lines[line]
