"""`--require`: letters and figures that a workflow must reach to be recommended."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from advisor.domain.constraints import (
    CLASSIFIED,
    FIGURES,
    SPELLINGS,
    UNITS,
    Constraint,
    Dimension,
    Unit,
)
from advisor.domain.priorities import CRITERIA
from advisor.domain.question import Task
from advisor.errors import PriorityError, SizeError

PATTERN = re.compile(r"\s*([a-z_-]+)\s*(>=|<=)\s*([^\s<>=]+)\s*", re.IGNORECASE)
NUMBER = re.compile(r"([0-9.eE+-]+?)\s*([a-zA-Z%]*)")
TIERS = {"a": 3, "b": 2, "c": 1, "3": 3, "2": 2, "1": 1}
EXAMPLES = ", ".join(
    f'"{each}"'
    for each in (
        *("portability>=B", "accuracy>=B"),
        *(f"{name}{figure.comparison}{figure.example}" for name, figure in FIGURES.items()),
    )
)


def parse_constraints(text: str) -> tuple[Constraint, ...]:
    """Return the constraints in a comma-separated list."""
    return tuple(_parse(part) for part in text.split(",") if part.strip())


def check_constraints(constraints: Sequence[Constraint], task: Task) -> None:
    """Raise `PriorityError` for a figure that the task does not measure."""
    for constraint in constraints:
        figure = FIGURES.get(constraint.criterion)
        if figure is not None and figure.of_text and task != "generate":
            of_text = (name for name, each in FIGURES.items() if each.of_text)
            raise PriorityError(
                f"the task {task} does not measure {constraint.criterion}, which --require limits",
                f"{' and '.join(of_text)} need --task generate, or --task serve with its own"
                " limits --ttft and --itl",
            )


def parse_duration(option: str, text: str) -> float:
    """Return the seconds of a duration such as `90s` or `5min`; raise `SizeError`."""
    found = _figure(text.strip(), "seconds")
    if found is None:
        raise SizeError(f"{option} {text!r} is not a duration", "write it like 90s, 5min or 1h")
    return found[0]


def _parse(part: str) -> Constraint:
    match = PATTERN.fullmatch(part)
    if match is None:
        raise _refuse(part)
    name, comparison, value = match[1].lower().replace("-", "_"), match[2], match[3]
    if name in CRITERIA or (name == CLASSIFIED and comparison == ">="):
        tier = TIERS.get(value.lower())
        if comparison != ">=" or tier is None:
            raise _refuse(part)
        return Constraint(criterion=name, at_least=tier)
    if name not in FIGURES or FIGURES[name].comparison != comparison:
        raise _refuse(part)
    figure = _figure(value, FIGURES[name].dimension)
    if figure is None:
        raise _refuse(part)
    number, unit = figure
    if comparison == ">=":
        return Constraint(criterion=name, at_least=number, unit=unit)
    return Constraint(criterion=name, at_most=number, unit=unit)


def _figure(text: str, dimension: Dimension) -> tuple[float, Unit | None] | None:
    """Return a figure in the base unit with its unit.

    Return None unless it is a positive number with a known unit.
    """
    match, spellings = NUMBER.fullmatch(text), SPELLINGS[dimension]
    if match is None or match[2].lower() not in spellings:
        return None
    unit = spellings[match[2].lower()]
    try:
        number = float(match[1]) * (1 if unit is None else UNITS[unit])
    except ValueError:
        return None
    return (number, unit) if math.isfinite(number) and number > 0 else None


def _refuse(part: str) -> PriorityError:
    names = ", ".join([*CRITERIA, *FIGURES])
    return PriorityError(
        f"{part.strip()!r} in --require is not a constraint",
        f"write it like {EXAMPLES}; valid names: {names}",
    )
