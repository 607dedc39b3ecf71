"""Parse `--accuracy`, `--max-build-times`, `--quantised`, `--data`, `--metric` and `--inputs`."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Sequence
from typing import get_args

from advisor.ask.constraints import parse_duration
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import Constraint
from advisor.domain.question import WeightFormat
from advisor.errors import OptionFileError, SizeError, UnknownWorkflowError, WeightFormatError

EXACT = "exact"


def parse_tolerance(text: str) -> float | None:
    """Return the largest relative error: 0 for `exact`, None for an empty text.

    `text` is a number or a percentage; raise `SizeError` for anything else.
    """
    written = text.strip().lower()
    if not written:
        return None
    if written == EXACT:
        return 0.0
    try:
        tolerance = float(written.removesuffix("%")) * (0.01 if written.endswith("%") else 1.0)
    except ValueError:
        tolerance = -1.0
    if not 0 <= tolerance <= 1:
        raise SizeError(
            f"--accuracy {text!r} is not a relative error", "use exact, or a number like 1e-3 or 1%"
        )
    return tolerance


def parse_build_times(text: str, catalogue: Catalogue) -> dict[str, float]:
    """Return the limits in seconds by workflow; raise `UnknownWorkflowError` or `SizeError`."""
    known = {workflow.id for workflow in catalogue.workflows}
    limits = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, duration = (each.strip() for each in part.partition("="))
        if name not in known:
            raise UnknownWorkflowError(f"unknown workflow {name!r}", "see p3-advisor workflows")
        if name in limits or not separator:
            message = f"--max-build-times {text!r} is not one time for each workflow"
            raise SizeError(message, f"write it like {name}=30min")
        limits[name] = parse_duration("--max-build-times", duration)
    return limits


ANY = "any"
FORMATS: tuple[WeightFormat, ...] = get_args(WeightFormat)


def parse_weight_formats(text: str) -> tuple[WeightFormat, ...]:
    """Return the named formats, all for `any`, none for an empty text.

    Raise `WeightFormatError` for any other name.
    """
    names = {part.strip().lower() for part in text.split(",")} - {""}
    unknown = names - {*FORMATS, ANY}
    if unknown:
        raise WeightFormatError(
            f"--quantised {text!r}: unknown format {min(unknown)!r}",
            f"use {', '.join(FORMATS)} or {ANY}",
        )
    return tuple(name for name in FORMATS if ANY in names or name in names)


def choose_weight_formats(text: str, constraints: Sequence[Constraint]) -> tuple[WeightFormat, ...]:
    """Return the formats of `--quantised`, or all where a constraint names a class of accuracy.

    Such a constraint, `accuracy>=B`, accepts a loss. Raise `WeightFormatError` for another name.
    """
    accepts_loss = any(constraint.asks_for_class for constraint in constraints)
    return parse_weight_formats(text or (ANY if accepts_loss else ""))


def parse_data(text: str) -> str:
    """Return the absolute path of a file with texts; raise `OptionFileError` if it is missing."""
    return _parse_file("--data", text, "name a file in the format JSON Lines")


def parse_inputs(text: str) -> str:
    """Return the absolute path of an .npz file, or `file.py:function` with one."""
    if text.endswith(".npz") or not text:
        return _parse_file("--inputs", text, "check the path")
    return parse_function("--inputs", text)


def _parse_file(option: str, text: str, fix: str) -> str:
    file = pathlib.Path(text).expanduser()
    if text and not file.is_file():
        raise OptionFileError(f"{option} {text!r} is not a file", fix)
    return text and str(file.resolve())


def parse_function(option: str, text: str) -> str:
    """Return `file.py:function` with an absolute path.

    Raise `OptionFileError` for a missing file, or one that does not define the function.
    """
    if not text:
        return ""
    name, _, function = text.rpartition(":")
    file = pathlib.Path(name).expanduser()
    if not (file.is_file() and function.isidentifier()):
        raise OptionFileError(f"{option} {text!r} names no file", "write it like file.py:function")
    if function not in defined_functions(file):
        raise OptionFileError(
            f"{name!r} defines no function {function!r}", "define it, or check its name"
        )
    return f"{file.resolve()}:{function}"


def defined_functions(file: pathlib.Path) -> set[str]:
    """Return the functions at the top level of a Python file, which is not executed."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as problem:
        raise OptionFileError(
            f"{str(file)!r} cannot be read as Python: {problem}", "mend the file"
        ) from problem
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
