"""Bundle definitions of `probes`, and everything they refer to, into the source of one module.

The script then has the very text that was measured. Annotations of functions and comments for
linters are removed: both refer to modules that the script does not have.
"""

from __future__ import annotations

import ast
import builtins
import pathlib
import re
from collections.abc import Iterator, Mapping

from advisor.recipes.source_index import (
    Definition,
    Edit,
    Module,
    Reference,
    annotation_removals,
    imports_package,
    is_omitted,
    module_file,
    reachable_statements,
    read_module,
    references,
)

#: Comments for our linters and type checker. A recipe goes without them, because the user's project
#: does not run our rules.
LINTER_COMMENTS = re.compile(rb" *# (?:noqa|type: ignore)\b.*$", re.MULTILINE)


class CannotBundleError(Exception):
    """The source refers to something that the bundler cannot follow."""


class SourceBundler:
    """Collects definitions and what they refer to, dependencies first.

    `probes` is the directory of the package; `files` names modules that lie elsewhere. `kept_keys`
    maps the names of tables to the one key of each that the script needs. `conditions` maps tests
    of `if` statements to their values in the script: unreachable statements are left out.
    """

    def __init__(
        self,
        probes: pathlib.Path,
        files: Mapping[str, pathlib.Path] | None = None,
        *,
        kept_keys: Mapping[str, str] | None = None,
        conditions: Mapping[str, bool] | None = None,
    ) -> None:
        self._probes = probes
        self._files = files or {}
        self._kept_keys = kept_keys or {}
        self._conditions = {
            ast.unparse(ast.parse(test)): value for test, value in (conditions or {}).items()
        }
        self._modules: dict[str, Module] = {}
        #: The name of each definition in the script; empty until `_name_all`.
        self._names: dict[Definition, str] = {}
        self._order: list[Definition] = []
        self._imports: dict[str, set[str]] = {}
        #: Local names at the places that refer to a definition: its name must be none of them.
        self._shadowed: dict[Definition, set[str]] = {}

    def add(self, module: str, name: str) -> None:
        """Add a definition and everything it refers to."""
        definition = self._resolve((module, name))
        if definition in self._names:
            return
        self._names[definition] = ""
        for node, bound in self._references(definition):
            self._follow(self._module(definition[0]), node, bound)
        self._order.append(definition)

    def name_of(self, module: str, name: str) -> str:
        """Return the name of a definition in the script: its own, unless that is taken."""
        definition = self._resolve((module, name))
        if not self._names[definition]:
            self._name_all()
        return self._names[definition]

    def _name_all(self) -> None:
        taken = set(self._imports)
        for definition in self._names:
            module, name = definition
            if name in taken | self._shadowed.get(definition, set()):
                name = f"{module.rpartition('.')[2]}_{name.lstrip('_')}"
            self._names[definition] = name
            taken.add(name)

    def imports(self) -> list[str]:
        """Return the import lines of the script."""
        return sorted(
            set().union(*self._imports.values()),
            key=lambda line: (not line.startswith("import "), line),
        )

    def definitions(self) -> str:
        """Return the source of all added definitions, separated by two empty lines."""
        return "\n\n\n".join(self._render(definition) for definition in self._order)

    def _module(self, name: str) -> Module:
        if name not in self._modules:
            file = self._files.get(name) or module_file(name, self._probes)
            self._modules[name] = read_module(name, file, self._probes)
        return self._modules[name]

    def _resolve(self, definition: Definition) -> Definition:
        """Follow imports and plain aliases to the place of the definition."""
        module = self._module(definition[0])
        if definition[1] in module.members:
            return self._resolve(module.members[definition[1]])
        statement = module.definitions.get(definition[1])
        if statement is None:
            message = f"{definition[0]} defines no {definition[1]}"
            raise CannotBundleError(message)
        if isinstance(statement, ast.Assign):
            target = self._target(module, statement.value)
            if target is not None:
                return self._resolve(target)
        return definition

    def _target(self, module: Module, node: ast.AST) -> Definition | None:
        """Return the definition of the package that an expression names, if it names one."""
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
            self._shadowed.setdefault(self._resolve(target), set()).update(bound)
            self.add(*target)
        elif isinstance(node, ast.Name) and node.id in module.foreign_imports:
            self._add_import(node.id, module.foreign_imports[node.id])
        elif isinstance(node, ast.Name) and node.id not in {*vars(builtins), "__file__"}:
            message = (
                f"{module.name} uses {node.id}, which is not a definition with a name of its own"
            )
            raise CannotBundleError(message)

    def _add_import(self, name: str, line: str) -> None:
        lines = self._imports.setdefault(name, set())
        lines.add(line)
        # `import a.b` and `import a.c` both bind `a` to the same package.
        if len(lines) > 1 and not all(
            each.startswith(f"import {name}") and " as " not in each for each in lines
        ):
            message = f"{name} is imported from two places"
            raise CannotBundleError(message)

    def _statement(self, definition: Definition) -> ast.stmt:
        """Return the definition; of a table with a kept key, only the entry of that key."""
        module, name = definition
        statement = self._module(module).definitions[name]
        kept = self._kept_keys.get(name)
        value = getattr(statement, "value", None)
        if kept is None or not isinstance(value, ast.Dict):
            return statement
        entries = [
            (key, entry)
            for key, entry in zip(value.keys, value.values, strict=True)
            if isinstance(key, ast.Constant) and key.value == kept
        ]
        table = ast.Dict([key for key, _ in entries], [entry for _, entry in entries])
        return ast.copy_location(
            ast.Assign([ast.Name(name, ast.Store())], ast.copy_location(table, value)),
            statement,
        )

    def _references(self, definition: Definition) -> Iterator[Reference]:
        modules = self._module(definition[0]).modules
        yield from references(self._statement(definition), frozenset(), modules, self._conditions)

    def _render(self, definition: Definition) -> str:
        module, statement = self._module(definition[0]), self._statement(definition)
        if statement is not module.definitions[definition[1]]:
            text = ast.unparse(statement)  # a table with a kept key
            for node, _ in self._references(definition):
                text = text.replace(ast.unparse(node), self._new_name(module, node))
            return text
        start, end = module.span(statement)
        decorators = getattr(statement, "decorator_list", [])
        start = _include_comment(
            module, min([start, *(module.span(node)[0] - 1 for node in decorators)])
        )
        omissions = list(self._omissions(module, statement))
        edits = [
            edit
            for edit in (
                *self._renamings(module, definition),
                *annotation_removals(module, statement),
            )
            if not any(first <= edit[0] < last for first, last, _ in omissions)
        ]
        edited = module.text
        for first, last, new in sorted([*edits, *omissions], reverse=True):
            edited = edited[:first] + new.encode() + edited[last:]
            end += len(new.encode()) - (last - first)
        return LINTER_COMMENTS.sub(b"", edited[start:end]).decode()

    def _omissions(self, module: Module, node: ast.AST) -> Iterator[Edit]:
        """Yield the edits that remove unreachable statements and imports from the package."""
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.FunctionDef):
            reachable = reachable_statements(node.body, self._conditions)
            if len(reachable) < len(node.body):
                end = module.line_offsets[reachable[-1].end_lineno or 0]
                yield end, module.line_offsets[node.end_lineno or 0], ""
                children = [
                    child for child in children if child not in node.body or child in reachable
                ]
        for child in children:
            if isinstance(child, ast.stmt) and (
                imports_package(child) or is_omitted(child, self._conditions)
            ):
                last = child.end_lineno or child.lineno
                next_line = module.text[module.line_offsets[last] : module.line_offsets[last + 1]]
                if imports_package(child) and not next_line.strip():
                    last += 1  # the empty line between imports and the code after them
                yield module.line_offsets[child.lineno - 1], module.line_offsets[last], ""
            else:
                yield from self._omissions(module, child)

    def _renamings(self, module: Module, definition: Definition) -> Iterator[Edit]:
        old = definition[1]
        statement, new = module.definitions[old], self.name_of(*definition)
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and new != old:
            first = module.text.index(old.encode(), module.span(statement)[0])
            yield first, first + len(old.encode()), new
        for node, _ in self._references(definition):
            replacement = self._new_name(module, node)
            if replacement != ast.unparse(node):
                yield (*module.span(node), replacement)
        if isinstance(statement, ast.Assign) and new != old:
            yield (*module.span(statement.targets[0]), new)

    def _new_name(self, module: Module, node: ast.Name | ast.Attribute) -> str:
        target = self._target(module, node)
        return self.name_of(*target) if target is not None else ast.unparse(node)


def _include_comment(module: Module, start: int) -> int:
    """Return the offset of the comment directly above a definition, else that of the definition."""
    line = module.line_offsets.index(start)
    while line and module.text[module.line_offsets[line - 1] :].startswith(b"#"):
        line -= 1
    return module.line_offsets[line]
