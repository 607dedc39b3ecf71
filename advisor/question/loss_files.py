"""`--data` and `--metric`: the user's files for what a trained model loses."""

from __future__ import annotations

import ast
import pathlib

from advisor.errors import LossFileError


def parse_data(text: str) -> str:
    """Return the absolute path of a file with texts; raise `LossFileError` if it is missing."""
    if not text:
        return ""
    file = pathlib.Path(text).expanduser()
    if not file.is_file():
        raise LossFileError(
            f"--data {text!r} is not a file", "name a file in the format JSON Lines"
        )
    return str(file.resolve())


def parse_metric(text: str) -> str:
    """Return `file.py:function` with an absolute path.

    Raise `LossFileError` for a missing file, or one that does not define the function.
    """
    if not text:
        return ""
    name, _, function = text.rpartition(":")
    file = pathlib.Path(name).expanduser()
    if not (file.is_file() and function.isidentifier()):
        raise LossFileError(f"--metric {text!r} names no file", "write it like metric.py:score")
    if function not in defined_functions(file):
        raise LossFileError(
            f"{name!r} defines no function {function!r}", "define it, or check its name"
        )
    return f"{file.resolve()}:{function}"


def defined_functions(file: pathlib.Path) -> set[str]:
    """Return the functions at the top level of a Python file, which is not executed."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as problem:
        raise LossFileError(
            f"{str(file)!r} cannot be read as Python: {problem}", "mend the file"
        ) from problem
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
