"""`--quantised`: the formats of weights whose arms are measured next to the native ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from advisor.domain.constraints import Constraint
from advisor.domain.question import WeightFormat
from advisor.errors import WeightFormatError

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
