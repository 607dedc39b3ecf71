"""Was the machine fit to be measured on while a visit ran?

Pure; the rules are fixed beforehand in `rubric/presets.toml`.
"""

from __future__ import annotations

from advisor.domain.catalogue import GuardRules
from advisor.domain.run_events import Conditions


def find_fault(conditions: Conditions, rules: GuardRules) -> str | None:
    """Return in words why a visit under these conditions should not count; None when nothing speaks against it.

    A power limit alone is no fault: heavy products reach it, and so they would in use.
    """
    if conditions.held_down_share:
        return "the GPU's clocks were held down by heat or a fault"
    if (
        conditions.sm_clock_share is not None
        and conditions.sm_clock_share < rules.least_clock_share
    ):
        return f"the GPU ran at {conditions.sm_clock_share:.0%} of its default clock"
    if (
        conditions.throttled_seconds is not None
        and conditions.throttled_seconds > rules.most_throttled_seconds
    ):
        return f"the control group was throttled for {conditions.throttled_seconds * 1000:.0f} ms"
    if conditions.stolen_share > rules.most_stolen_share:
        return f"the hypervisor took {conditions.stolen_share:.0%} of the processors' time"
    if conditions.queued_share is not None and conditions.queued_share > rules.most_queued_share:
        return f"other processes kept it waiting for a processor for {conditions.queued_share:.0%} of the time"
    return None


def may_discard(discarded: int, visits: int, attempt: int, rules: GuardRules) -> bool:
    """Say whether one more visit of an arm, its `attempt`th of a round from 0, may be discarded and made again."""
    return attempt < rules.retries and discarded + 1 <= max(
        rules.most_discarded_share * (visits + 1), 1
    )
