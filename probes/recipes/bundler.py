"""Join pieces of this package's own source into one module: chosen functions and classes, and what they refer to, in order.

What is run and what is handed out are then the same text. Annotations of functions are left out,
and so are comments meant for linters: both speak of modules that the result does not have.
"""

from __future__ import annotations

import ast
import builtins
import pathlib
import re
from collections.abc import Iterator, Mapping

from probes.recipes.source_index import (
    HERE,
    Module,
    Place,
    Reference,
    is_omitted,
    is_ours,
    reached,
    read_module,
    references,
    without_annotations,
)

#: Comments that silence a linter or type checker here: people who are handed the script do not run
#: ours, and would wonder.
FOR_TOOLS = re.compile(rb" *# (?:noqa|type: ignore)\b.*$", re.MULTILINE)


class CannotJoinError(Exception):
    """The source refers to something that cannot be followed."""


class SourceBundler:
    """Collects definitions from the places it is asked for, dependencies first.

    `facts` are tests of `if` statements and whether they hold where the result is run: what is
    never run there is left out.
    """

    def __init__(
        self,
        files: dict[str, pathlib.Path] | None = None,
        *,
        kept_keys: dict[str, str] | None = None,
        facts: Mapping[str, bool] | None = None,
    ) -> None:
        #: Modules that are not found by their name; and, for tables of which one entry is needed,
        #: its key by the table's name.
        self._files = files or {}
        self._kept_keys = kept_keys or {}
        self._facts = {ast.unparse(ast.parse(test)): holds for test, holds in (facts or {}).items()}
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
            self._names[place] = (
                place[1] if free else f"{place[0].rpartition('.')[2]}_{place[1].lstrip('_')}"
            )
            taken.add(self._names[place])

    def imports(self) -> list[str]:
        """Return the lines that import from elsewhere."""
        return sorted(
            set().union(*self._imports.values()),
            key=lambda line: (not line.startswith("import "), line),
        )

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
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in module.modules
        ):
            return module.modules[node.value.id], node.attr
        return None

    def _follow(
        self, module: Module, node: ast.Name | ast.Attribute, bound: frozenset[str]
    ) -> None:
        target = self._target(module, node)
        if target is not None:
            self._hidden.setdefault(self._resolve(target), set()).update(bound)
            self.add(*target)
        elif isinstance(node, ast.Name) and node.id in module.elsewhere:
            lines = self._imports.setdefault(node.id, set())
            lines.add(module.elsewhere[node.id])
            # `import a.b` and `import a.c` both bind `a`, and to the same.
            if len(lines) > 1 and not all(
                line.startswith(f"import {node.id}") and " as " not in line for line in lines
            ):
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
            (key, each)
            for key, each in zip(value.keys, value.values, strict=True)
            if isinstance(key, ast.Constant) and key.value == kept
        ]
        table = ast.Dict([key for key, _ in pairs], [each for _, each in pairs])
        return ast.copy_location(
            ast.Assign([ast.Name(place[1], ast.Store())], ast.copy_location(table, value)),
            statement,
        )

    def _references(self, place: Place) -> Iterator[Reference]:
        modules = self._module(place[0]).modules
        yield from references(self._statement(place), frozenset(), modules, self._facts)

    def _render(self, place: Place) -> str:
        module, statement = self._module(place[0]), self._statement(place)
        if statement is not module.definitions[place[1]]:
            text = ast.unparse(statement)  # an entry of a table
            for node, _ in self._references(place):
                text = text.replace(ast.unparse(node), self._new_name(module, node))
            return text
        start, end = module.span(statement)
        start = min(
            [
                start,
                *(module.span(node)[0] - 1 for node in getattr(statement, "decorator_list", [])),
            ]
        )
        start = _with_comments(module, start)
        omissions = list(self._omissions(module, statement))
        edits = [*self._renamings(module, place), *without_annotations(module, statement)]
        edits = [
            edit
            for edit in edits
            if not any(first <= edit[0] < last for first, last, _ in omissions)
        ]
        edited = module.text
        for first, last, new in sorted([*edits, *omissions], reverse=True):
            edited = edited[:first] + new.encode() + edited[last:]
            end += len(new.encode()) - (last - first)
        return FOR_TOOLS.sub(b"", edited[start:end]).decode()

    def _omissions(self, module: Module, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        """Yield the edits that take out what is never run here, and the imports of what the result defines itself."""
        kept = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.FunctionDef) and len(run := reached(node.body, self._facts)) < len(
            node.body
        ):
            yield module.lines[run[-1].end_lineno or 0], module.lines[node.end_lineno or 0], ""
            kept = [child for child in kept if child not in node.body or child in run]
        for child in kept:
            if isinstance(child, ast.stmt) and (is_ours(child) or is_omitted(child, self._facts)):
                last = child.end_lineno or child.lineno
                follows = module.text[module.lines[last] : module.lines[last + 1]]
                if is_ours(child) and not follows.strip():
                    last += 1  # the empty line that parts imports from what comes after them
                yield module.lines[child.lineno - 1], module.lines[last], ""
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


def _with_comments(module: Module, start: int) -> int:
    """Return where the comment directly above a definition begins."""
    line = module.lines.index(start)
    while line and module.text[module.lines[line - 1] :].startswith(b"#"):
        line -= 1
    return module.lines[line]
