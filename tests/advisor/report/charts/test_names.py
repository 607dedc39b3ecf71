"""Names next to the pictures."""

from __future__ import annotations

import itertools

import builders
import pytest

from advisor.report.charts.marks import LONGEST_NAME, short_names, spread


def test_names_of_all_arms_of_the_catalogue_stay_distinct_and_fit() -> None:
    arms = [
        f"{workflow.id}/{option}"
        for workflow in builders.shipped_catalogue().workflows
        for option in (*workflow.arms, "default")
    ]
    shown = short_names(arms)
    assert len(set(shown.values())) == len(set(arms))
    assert max(map(len, shown.values())) <= LONGEST_NAME


def test_long_names_lose_their_beginning_at_the_end_of_a_word() -> None:
    long = "torch-compile-inductor-static-cache/loop-compiled"
    assert short_names(["eager", long]) == {
        "eager": "eager",
        long: "…inductor-static-cache/loop-compiled",
    }


def test_names_with_equal_ends_stay_whole() -> None:
    names = [f"{head}-{'x' * LONGEST_NAME}" for head in ("one", "two")]
    assert short_names(names) == dict(zip(names, names, strict=True))


@pytest.mark.parametrize(
    ("wanted", "placed"),
    [
        ([50.0], [50.0]),
        ([20.0, 80.0], [20.0, 80.0]),
        ([50.0, 50.0], [55.0, 45.0]),
        ([100.0, 99.0, 98.0], [100.0, 90.0, 80.0]),
        ([0.0, 0.0], [0.0, 10.0]),
    ],
)
def test_names_are_spread_near_their_places(wanted: list[float], placed: list[float]) -> None:
    assert sorted(spread(wanted, 10, 0, 100)) == sorted(placed)


def test_spread_names_keep_their_order_and_distance() -> None:
    wanted = [3.0, 90.0, 4.0, 91.0, 92.0, 5.0, 50.0, 50.1]
    placed = spread(wanted, 12, 0, 100)
    order = sorted(range(8), key=wanted.__getitem__)
    assert order == sorted(range(8), key=placed.__getitem__)
    heights = sorted(placed)
    assert all(two - one >= 12 - 1e-9 for one, two in itertools.pairwise(heights))
    assert 0 <= heights[0] <= heights[-1] <= 100
