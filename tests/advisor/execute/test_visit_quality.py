"""Which conditions make a visit unfit, and how often an unfit visit is repeated."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from advisor.domain.catalogue import VisitQualityLimits
from advisor.domain.run_events import Conditions
from advisor.execute import racing

LIMITS = VisitQualityLimits(
    most_stolen_share=0.05,
    most_queued_share=0.2,
    most_throttled_seconds=0.0,
    least_clock_share=0.75,
    retries=2,
    most_discarded_share=0.3,
    source="a test",
)
QUIET = Conditions(seconds=0.05, stolen_share=0.0, queued_share=0.0, throttled_seconds=0.0)
#: A GPU that runs at its power limit all the time, as with heavy kernels.
BUSY_GPU = msgspec.structs.replace(
    QUIET,
    sm_clock_mhz=1700,
    sm_clock_share=0.86,
    temperature_c=70,
    power_w=700.0,
    thermal_throttled_share=0.0,
    power_capped_share=1.0,
)


@pytest.mark.parametrize(
    "conditions",
    [
        QUIET,
        BUSY_GPU,
        Conditions(seconds=0.05, stolen_share=0.0, queued_share=None, throttled_seconds=None),
    ],
)
def test_a_quiet_machine_and_unknown_conditions_are_no_disturbance(
    conditions: Conditions,
) -> None:
    assert racing.find_disturbance(conditions, LIMITS) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stolen_share": 0.06}, "hypervisor took 6%"),
        ({"queued_share": 0.21}, "wait for a processor during 21%"),
        ({"throttled_seconds": 0.012}, "throttled for 12 ms"),
        ({"sm_clock_share": 0.7}, "70% of its default clock"),
        ({"thermal_throttled_share": 0.1}, "held down by heat or a fault"),
    ],
)
def test_each_disturbance_has_its_reason(changes: dict[str, Any], words: str) -> None:
    disturbance = racing.find_disturbance(msgspec.structs.replace(QUIET, **changes), LIMITS)
    assert disturbance is not None
    assert words in disturbance


@pytest.mark.parametrize(
    "changes", [{"stolen_share": 0.05}, {"queued_share": 0.2}, {"sm_clock_share": 0.75}]
)
def test_a_value_at_its_limit_is_no_disturbance(changes: dict[str, Any]) -> None:
    assert racing.find_disturbance(msgspec.structs.replace(QUIET, **changes), LIMITS) is None


def test_a_visit_is_repeated_at_most_as_often_as_the_limit_allows() -> None:
    assert [racing.may_discard(0, 100, attempt, LIMITS) for attempt in range(4)] == [
        True,
        True,
        False,
        False,
    ]


def test_the_first_visit_may_be_discarded_and_later_ones_up_to_their_share() -> None:
    assert racing.may_discard(0, 0, 0, LIMITS)
    assert not racing.may_discard(1, 1, 0, LIMITS), "two of two"
    assert racing.may_discard(2, 9, 0, LIMITS), "three of ten"
    assert not racing.may_discard(3, 9, 0, LIMITS), "four of ten"


def test_on_a_machine_that_is_never_fit_the_discarded_share_stays_at_its_limit() -> None:
    discarded = 0
    for visits in range(1000):
        discarded += racing.may_discard(discarded, visits, 0, LIMITS)
    assert discarded == 300
