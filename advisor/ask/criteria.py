"""Read and check `criteria.toml`."""

from __future__ import annotations

import math
import pathlib
import re
from typing import Any

import msgspec

from advisor.ask.toml_file import read
from advisor.domain.priorities import CRITERIA
from advisor.domain.rubric import Criterion, Rubric
from advisor.domain.workflow import DeclaredFacts
from advisor.errors import CatalogueError

#: The part of a msgspec message that locates a criterion and one of its tiers or grades.
LOCATION = re.compile(r"\$\.criteria\[(\d+)\](?:\.(tiers|grades)\[(\d+)\])?")
#: Facts that follow from a workflow's entry or from a measurement, not from a declaration.
DERIVED_FACTS = {
    "speedup",
    "build_seconds",
    "own_environment",
    "performance_portability",
}
#: Declared fields that no rule may use.
EXCLUDED_FIELDS = {"licence", "looked_up"}


def read_rubric(file: pathlib.Path) -> Rubric:
    """Read the criteria and check what the schema cannot: facts, tiers and finite grades."""
    rubric = _decode_rubric(file)
    if sorted(criterion.id for criterion in rubric.criteria) != sorted(CRITERIA):
        raise _invalid(file, f"the criteria must be {', '.join(CRITERIA)}")
    unknown = set(rubric.facts) - (
        {*DeclaredFacts.__struct_fields__, *DERIVED_FACTS} - EXCLUDED_FIELDS
    )
    if unknown:
        raise _invalid(file, f"unknown facts: {', '.join(sorted(unknown))}")
    text = file.read_text(encoding="utf-8")
    for number, criterion in enumerate(rubric.criteria):
        _check_criterion(f"{file}:{table_line(text, number, None)}", criterion, rubric)
    return rubric


def _decode_rubric(file: pathlib.Path) -> Rubric:
    """Decode the file; name the line of the table when a value is invalid."""
    tables = read(file, dict[str, Any])
    try:
        return msgspec.convert(tables, Rubric, strict=True)
    except msgspec.ValidationError as problem:
        location = LOCATION.search(str(problem))
        line = None
        if location:
            inner = (location[2], int(location[3])) if location[2] else None
            line = table_line(file.read_text(encoding="utf-8"), int(location[1]), inner)
        where = f"{file}:{line}" if line else str(file)
        raise CatalogueError(
            f"{where}: {problem}", "compare it with the schema: p3-advisor --spec"
        ) from problem


def table_line(text: str, criterion: int, inner: tuple[str, int] | None) -> int | None:
    """Return the line of a criterion's table, or of its `inner` one, such as `("tiers", 0)`.

    Tables are counted from 0.
    """
    criteria, inside = -1, -1
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() == "[[criteria]]":
            criteria, inside = criteria + 1, -1
        elif inner and line.strip() == f"[[criteria.{inner[0]}]]":
            inside += 1
        else:
            continue
        if criteria == criterion and inside == (inner[1] if inner else -1):
            return number
    return None


def _check_criterion(place: str, criterion: Criterion, rubric: Rubric) -> None:
    if [rule.tier for rule in criterion.tiers] != [3, 2, 1]:
        raise _invalid(place, f"{criterion.id}: the tiers must be 3, 2, 1 in this order")
    if not criterion.grades:
        raise _invalid(place, f"{criterion.id}: it needs grades")
    for rule in criterion.grades:
        if rule.fact not in rubric.facts:
            known = ", ".join(rubric.facts)
            raise _invalid(
                place, f"{criterion.id}: unknown fact {rule.fact!r}; valid facts: {known}"
            )
        numbers = [number for knot in rule.knots for number in knot] + [*rule.values.values()]
        if not all(math.isfinite(number) for number in numbers):
            raise _invalid(place, f"{criterion.id}: a grade of {rule.fact} is not a finite number")


def _invalid(file: pathlib.Path | str, what: str) -> CatalogueError:
    return CatalogueError(f"{file}: {what}", "compare it with the shipped rubric/criteria.toml")
