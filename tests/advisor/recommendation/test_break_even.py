"""After how many requests a build has paid for itself, and when it is sure never to."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.recommendation import costs
from advisor.recommendation.costs import Cost

INCUMBENT = Cost(build_seconds=1.0, request_seconds=0.010)
COSTS = st.builds(Cost, st.floats(0, 1e4), st.floats(1e-6, 10))


@pytest.mark.parametrize(
    ("candidate", "requests"),
    [
        (Cost(11.0, 0.005), 2000),
        (Cost(11.0, 0.010), math.inf),
        (Cost(11.0, 0.020), math.inf),
        (Cost(0.5, 0.005), 0),
        (Cost(1.0, 0.010), 0),
    ],
)
def test_a_build_has_paid_when_both_have_taken_as_long(candidate: Cost, requests: float) -> None:
    assert costs.break_even(candidate, INCUMBENT) == pytest.approx(requests)


@given(COSTS, COSTS)
def test_at_the_break_even_the_totals_are_equal_and_beyond_it_the_candidate_is_ahead(
    candidate: Cost, incumbent: Cost
) -> None:
    requests = costs.break_even(candidate, incumbent)
    if 0 < requests < 1e12:
        assert candidate.total(requests) == pytest.approx(incumbent.total(requests))
        assert candidate.total(2 * requests) <= incumbent.total(2 * requests) * (1 + 1e-9)
        assert candidate.total(requests / 2) >= incumbent.total(requests / 2) * (1 - 1e-9)


@given(
    COSTS,
    st.floats(0, 1e4),
    st.floats(0, 10),
    st.floats(0, 1e4),
    st.floats(0, 1),
    st.integers(1, 10**7),
)
def test_what_is_ended_because_its_build_cannot_pay_loses_however_it_turns_out(
    incumbent: Cost,
    least: float,
    fastest: float,
    more_build: float,
    more_seconds: float,
    requests: int,
) -> None:
    if least > costs.most_build_seconds(incumbent, fastest, requests):
        real = Cost(least + more_build, fastest + more_seconds)
        assert real.total(requests) >= incumbent.total(requests) * (1 - 1e-9)


def test_a_build_that_takes_as_long_as_an_incumbent_serves_is_the_longest_that_can_pay() -> None:
    limit = costs.most_build_seconds(INCUMBENT, 0.0, 1000)
    assert limit == pytest.approx(11.0)
    assert Cost(limit, 0.0).total(1000) == pytest.approx(INCUMBENT.total(1000))
