"""Read and check `criteria.toml`."""

from __future__ import annotations

import math
import pathlib
import re
from typing import Any

import msgspec

from advisor.catalogue.toml_file import read
from advisor.domain.question import CRITERIA
from advisor.domain.rubric import Condition, Criterion, Rubric
from advisor.domain.workflow import DeclaredFacts
from advisor.errors import CatalogueError

#: The part of a msgspec message that locates a criterion and one of its tiers.
LOCATION = re.compile(r"\$\.criteria\[(\d+)\](?:\.tiers\[(\d+)\])?")
#: Facts that follow from a workflow's entry or from a measurement, not from a declaration.
DERIVED_FACTS = {
    "speedup_low",
    "fastest_over_it",
    "cold_build_seconds",
    "own_environment",
    "performance_portability",
}
#: Declared fields that no rule may use.
EXCLUDED_FIELDS = {"licence", "looked_up"}


def read_rubric(file: pathlib.Path) -> Rubric:
    """Read the criteria and check the facts and the tiers, which the schema cannot."""
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
        _check_tiers(f"{file}:{table_line(text, number, None)}", criterion)
        for tier, rule in enumerate(criterion.tiers):
            where = f"{file}:{table_line(text, number, tier)}"
            for condition in rule.all:
                _check_condition(where, f"{criterion.id}, tier {rule.tier}", condition, rubric)
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
            tier = int(location[2]) if location[2] else None
            line = table_line(file.read_text(encoding="utf-8"), int(location[1]), tier)
        where = f"{file}:{line}" if line else str(file)
        raise CatalogueError(
            f"{where}: {problem}", "compare it with the schema: p3-advisor --spec"
        ) from problem


def table_line(text: str, criterion: int, tier: int | None) -> int | None:
    """Return the line of a criterion's table, or of one of its tiers; both are counted from 0."""
    criteria, tiers = -1, -1
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() == "[[criteria]]":
            criteria, tiers = criteria + 1, -1
        elif line.strip() == "[[criteria.tiers]]":
            tiers += 1
        else:
            continue
        if criteria == criterion and tiers == (-1 if tier is None else tier):
            return number
    return None


def _check_tiers(file: str, criterion: Criterion) -> None:
    if [rule.tier for rule in criterion.tiers] != [3, 2, 1]:
        raise _invalid(file, f"{criterion.id}: the tiers must be 3, 2, 1 in this order")
    if criterion.tiers[-1].all or not all(rule.all for rule in criterion.tiers[:-1]):
        raise _invalid(
            file,
            f"{criterion.id}: tiers 3 and 2 need conditions, and tier 1 must have none",
        )


def _check_condition(file: str, place: str, condition: Condition, rubric: Rubric) -> None:
    if condition.fact not in rubric.facts:
        raise _invalid(
            file, f"{place}: unknown fact {condition.fact!r}; known are {', '.join(rubric.facts)}"
        )
    comparisons = [condition.at_least, condition.at_most, condition.is_one_of]
    if sum(comparison is not None for comparison in comparisons) != 1:
        raise _invalid(
            file, f"{place}: {condition.fact} needs exactly one of at_least, at_most, is_one_of"
        )
    if any(
        isinstance(comparison, float) and not math.isfinite(comparison)
        for comparison in comparisons
    ):
        raise _invalid(file, f"{place}: the threshold of {condition.fact} is not a finite number")


def _invalid(file: pathlib.Path | str, what: str) -> CatalogueError:
    return CatalogueError(f"{file}: {what}", "compare it with the shipped rubric/criteria.toml")
