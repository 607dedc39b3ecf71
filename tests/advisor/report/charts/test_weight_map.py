"""The map of the weights."""

from __future__ import annotations

import builders
import pytest

from advisor.decide.sensitivity import leading_shares
from advisor.domain.constraints import CRITERIA, PILLARS
from advisor.report.charts.weight_map import Weights, find_regions


def area(region: list[Weights]) -> float:
    """Return the area as a share of the whole map, by the shoelace formula."""
    return abs(
        sum(
            one[0] * two[1] - two[0] * one[1]
            for one, two in zip(region, [*region[1:], region[0]], strict=True)
        )
    )


def test_regions_have_the_shares_of_the_advice() -> None:
    priorities = builders.priorities(40, 35, 25)
    grades = {
        "fast": (3.4, 1.0, 1.5),
        "easy": (1.2, 3.0, 1.2),
        "everywhere": (1.1, 1.9, 3.0),
        "middling": (2.2, 2.2, 1.9),
        "never": (1.0, 1.0, 1.0),
    }
    arms = [
        builders.scored_arm(
            arm,
            ratings={
                name: builders.rating(grade=grade)
                for name, grade in zip(CRITERIA, (*values, 2.0, 2.0), strict=True)
            },
            speedup=values[0],
        )
        for arm, values in grades.items()
    ]
    shares = leading_shares(arms, priorities)
    regions = find_regions(grades, {arm: values[0] for arm, values in grades.items()})
    assert "never" not in regions
    assert {arm: area(region) for arm, region in regions.items()} == pytest.approx(
        {arm: share for arm, share in shares.items() if share}, abs=1e-9
    )


def test_of_equal_arms_the_fastest_has_the_region() -> None:
    same = (2.0, 2.0, 2.0)
    regions = find_regions({"slow": same, "fast": same}, {"slow": 1.0, "fast": 2.0})
    assert list(regions) == ["fast"]
    assert len(PILLARS) == len(regions["fast"])
