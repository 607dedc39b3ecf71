"""What an arm costs, and when its build has paid."""

from __future__ import annotations

from typing import Literal

import builders
import built_measurements
import pytest

from advisor.decide import recommend as costs
from advisor.domain.measurement import (
    BuildSeconds,
    CallSeconds,
    Interval,
    Measurement,
    Throughput,
)


def measured(
    arm: str,
    seconds: dict[int, float],
    *,
    build: float = 0.0,
    baseline: float = 1.0,
    spread: float = 0.0,
    unit: Literal["tokens/s", "samples/s"] = "samples/s",
) -> Measurement:
    cells = []
    for size, each in seconds.items():
        speedup = baseline / each
        cells.append(
            built_measurements.cell(
                size=size,
                seconds=CallSeconds(median=each, low=None, high=None, samples=9),
                throughput=Throughput(value=size / each, unit=unit),
                speedup=Interval(value=speedup, low=speedup - spread, high=speedup + spread),
            )
        )
    return builders.measurement(
        arm, cells=tuple(cells), build_seconds=BuildSeconds(cold=build, warm=None)
    )


EAGER = measured("eager", {1: 1.0, 4: 1.0})


def test_a_build_is_paid_by_what_each_request_saves() -> None:
    first, second = costs.find_break_even(measured("fast", {1: 0.5, 4: 0.5}, build=100), EAGER)
    assert (first.shape.batch_size, first.requests) == (1, 200)
    assert (second.shape.batch_size, second.requests) == (4, 800)


def test_the_interval_of_the_speedup_bounds_the_break_even() -> None:
    (found,) = costs.find_break_even(measured("fast", {1: 0.5}, build=90, spread=0.5), EAGER)
    assert (found.low, found.requests, found.high) == (150, 180, 270)


def test_an_arm_that_is_not_faster_never_pays() -> None:
    (found,) = costs.find_break_even(measured("slow", {1: 1.5}, build=1), EAGER)
    assert found.requests is None


@pytest.mark.parametrize(
    ("requests", "first"), [(100, "eager"), (201, "fast"), (10**6, "fast"), (None, None)]
)
def test_the_first_to_serve_changes_where_the_build_is_paid(
    requests: int | None, first: str | None
) -> None:
    found = costs.first_to_serve([EAGER, measured("fast", {1: 0.5}, build=100)], requests)
    assert found == ({"1": first, "4": "eager"} if requests else {})


def test_costs_are_of_tokens_where_tokens_are_made_and_of_requests_elsewhere() -> None:
    (requests,) = costs.price([measured("one", {4: 2.0})], 3.6)
    assert requests.value == pytest.approx(0.5)
    assert requests.unit == "thousand requests"
    (tokens,) = costs.price([measured("one", {4: 2.0}, unit="tokens/s")], 3.6)
    assert tokens.value == pytest.approx(500)
    assert tokens.unit == "million tokens"
    assert costs.price([EAGER], None) == ()


@pytest.mark.parametrize(
    ("more", "saved", "requests"),
    [
        (10.0, 0.005, 2000),
        (10.0, 0.0, None),
        (10.0, -0.01, None),
        (-0.5, 0.005, 0),
        (-0.5, -0.01, None),
        (0.0, 0.0, 0),
    ],
)
def test_a_build_has_paid_when_both_have_taken_as_long(
    more: float, saved: float, requests: float | None
) -> None:
    assert costs.break_even(more, saved) == requests
