"""Compose the short recipe: load the model, compile it as it was measured, call it.

It has the lines of the workflow's own `integration`, which the worker that was measured reported.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Sequence

from advisor.domain.question import Question
from advisor.errors import NoRecipeError
from advisor.report.recipes.calls import checkpoint_prompt_lines
from advisor.report.recipes.loading import loading_lines
from probes.wire.facts import InputFacts

#: Packages that the lines may use, and how they are imported.
USED_PACKAGES = ("numpy", "onnxruntime", "os", "runpy", "tokenizers", "torch", "transformers")
#: Name of the checkpoint in the lines of a workflow that opens it itself.
CHECKPOINT = "CHECKPOINT"
#: The comment above the lines of each call; those above it run once.
EACH_CALL = re.compile(r"^ *# Each call\b.*\n", re.MULTILINE)
MAIN_GUARD = 'if __name__ == "__main__":  # engines start processes that import this file'


def compose_snippet(
    question: Question,
    batch_size: int,
    integration: str,
    inputs: Sequence[InputFacts] | None = None,
) -> str:
    """Return the imports and the lines; raise `NoRecipeError` where there are none.

    `inputs` are those that the worker reported.
    """
    if not integration:
        raise NoRecipeError("the run does not have the lines of this workflow", "measure again")
    imports, steps = split_imports(integration)
    is_engine = False
    if CHECKPOINT in _names(integration):
        is_engine = "import torch" not in imports
        lines = checkpoint_prompt_lines(question, batch_size, prompts_on_device=not is_engine)
    else:
        lines = loading_lines(question, batch_size, inputs)
    loaded_imports, loading = split_imports("\n".join(lines))
    text = "\n".join(lines)
    used = [f"import {name}" for name in USED_PACKAGES if f"{name}." in text]
    needed = sorted({*imports, *loaded_imports, *used}, key=import_order)
    program = strip_blank([*loading, "", *steps])
    if is_engine:
        program = [MAIN_GUARD, indent("\n".join(program), 4)]
    body = "\n".join([*needed, "", *program]).strip() + "\n"
    ast.parse(body)  # what a stack or a name of a file broke is an error here
    return body


def _names(source: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def indent(source: str, spaces: int) -> str:
    """Return the source as the body of a block; the text of literals stays as it is."""
    inside_literals = {
        number
        for node in ast.walk(ast.parse(source))
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
        lambda node: isinstance(node, (ast.Import, ast.ImportFrom)), ast.parse(source).body
    )
    positions = {node.lineno - 1 for node in leading}
    imports = [line for number, line in enumerate(lines) if number in positions]
    steps = [line for number, line in enumerate(lines) if number not in positions]
    return imports, strip_blank(steps)


def imported_packages(source: str) -> set[str]:
    packages: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            packages |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            packages.add(node.module or "")
    return {name.partition(".")[0] for name in packages}


def strip_blank(lines: Sequence[str]) -> list[str]:
    return "\n".join(lines).strip("\n").splitlines()


def import_order(line: str) -> tuple[bool, str]:
    return line.startswith("from "), line
