"""Which conditions make a visit count for nothing, and how often it may be made again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from advisor.domain.catalogue import GuardRules
from advisor.domain.run_events import Conditions
from advisor.pipeline import visit_quality

RULES = GuardRules(
    most_stolen_share=0.05,
    most_queued_share=0.2,
    most_throttled_seconds=0.0,
    least_clock_share=0.75,
    retries=2,
    most_discarded_share=0.3,
    source="a test",
)
QUIET = Conditions(seconds=0.05, stolen_share=0.0, queued_share=0.0, throttled_seconds=0.0)
#: A GPU that runs at its power limit all the time, as heavy products make it.
BUSY_GPU = msgspec.structs.replace(
    QUIET,
    sm_clock_mhz=1700,
    sm_clock_share=0.86,
    temperature_c=70,
    power_w=700.0,
    held_down_share=0.0,
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
def test_nothing_speaks_against_a_quiet_machine_nor_what_cannot_be_seen(
    conditions: Conditions,
) -> None:
    assert visit_quality.find_fault(conditions, RULES) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stolen_share": 0.06}, "hypervisor took 6%"),
        ({"queued_share": 0.21}, "kept it waiting for a processor for 21%"),
        ({"throttled_seconds": 0.012}, "throttled for 12 ms"),
        ({"sm_clock_share": 0.7}, "70% of its default clock"),
        ({"held_down_share": 0.1}, "held down by heat or a fault"),
    ],
)
def test_each_disturbance_is_named(changes: dict[str, Any], words: str) -> None:
    fault = visit_quality.find_fault(msgspec.structs.replace(QUIET, **changes), RULES)
    assert fault is not None
    assert words in fault


@pytest.mark.parametrize(
    "changes", [{"stolen_share": 0.05}, {"queued_share": 0.2}, {"sm_clock_share": 0.75}]
)
def test_what_just_meets_its_limit_counts(changes: dict[str, Any]) -> None:
    assert visit_quality.find_fault(msgspec.structs.replace(QUIET, **changes), RULES) is None


def test_a_visit_is_made_again_no_oftener_than_the_rules_say() -> None:
    assert [visit_quality.may_discard(0, 100, attempt, RULES) for attempt in range(4)] == [
        True,
        True,
        False,
        False,
    ]


def test_the_first_visit_may_be_discarded_and_later_ones_up_to_their_share() -> None:
    assert visit_quality.may_discard(0, 0, 0, RULES)
    assert not visit_quality.may_discard(1, 1, 0, RULES), "two of two"
    assert visit_quality.may_discard(2, 9, 0, RULES), "three of ten"
    assert not visit_quality.may_discard(3, 9, 0, RULES), "four of ten"


def test_a_machine_that_is_never_fit_loses_no_more_visits_than_their_share() -> None:
    discarded = 0
    for visits in range(1000):
        discarded += visit_quality.may_discard(discarded, visits, 0, RULES)
    assert discarded == 300
