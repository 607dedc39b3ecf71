"""Compose the short recipe: load the model, compile it as it was measured, call it.

It has the lines of the workflow's own `integration`, which the worker that was measured reported.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from advisor.domain.question import Question
from advisor.domain.recipe_facts import InputFacts
from advisor.errors import NoRecipeError
from advisor.recipes.loading import loading_lines

#: Packages that the lines may use, and how they are imported.
USED_PACKAGES = ("onnxruntime", "os", "torch", "transformers")


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
        raise NoRecipeError(
            "the run does not have the lines of this workflow",
            "use --style check, or measure again",
        )
    imports, steps = split_imports(integration)
    lines = loading_lines(question, batch_size, inputs)
    loaded_imports, loading = split_imports("\n".join(lines))
    text = "\n".join(lines)
    used = [f"import {name}" for name in USED_PACKAGES if f"{name}." in text]
    needed = sorted({*imports, *loaded_imports, *used}, key=import_order)
    body = "\n".join([*needed, "", *loading, "", *steps]).strip() + "\n"
    ast.parse(body)  # what a stack or a name of a file broke is an error here
    return body


def split_imports(source: str) -> tuple[list[str], list[str]]:
    """Return the import lines at the top level, and the other lines."""
    lines = source.splitlines()
    positions = {
        node.lineno - 1
        for node in ast.parse(source).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    imports = [line for number, line in enumerate(lines) if number in positions]
    steps = [line for number, line in enumerate(lines) if number not in positions]
    return imports, strip_blank(steps)


def strip_blank(lines: Sequence[str]) -> list[str]:
    """Return the lines without blank ones at both ends."""
    return "\n".join(lines).strip("\n").splitlines()


def import_order(line: str) -> tuple[bool, str]:
    return line.startswith("from "), line
