"""Decide whether the machine was fit for measurements during a visit.

Pure; the limits are fixed beforehand in `rubric/presets.toml`.
"""

from __future__ import annotations

from advisor.domain.catalogue import VisitQualityLimits
from advisor.domain.run_events import Conditions


def find_disturbance(conditions: Conditions, limits: VisitQualityLimits) -> str | None:
    """Return why a visit under these conditions should not count; None if it should.

    A power limit alone is no disturbance: heavy kernels reach it in production too.
    """
    if conditions.thermal_throttled_share:
        return "the GPU's clocks were held down by heat or a fault"
    if (
        conditions.sm_clock_share is not None
        and conditions.sm_clock_share < limits.least_clock_share
    ):
        return f"the GPU ran at {conditions.sm_clock_share:.0%} of its default clock"
    if (
        conditions.throttled_seconds is not None
        and conditions.throttled_seconds > limits.most_throttled_seconds
    ):
        return f"the cgroup was throttled for {conditions.throttled_seconds * 1000:.0f} ms"
    if conditions.stolen_share > limits.most_stolen_share:
        return f"the hypervisor took {conditions.stolen_share:.0%} of the processors' time"
    if conditions.queued_share is not None and conditions.queued_share > limits.most_queued_share:
        return (
            "other processes made it wait for a processor during "
            f"{conditions.queued_share:.0%} of the time"
        )
    return None


def may_discard(discarded: int, visits: int, attempt: int, limits: VisitQualityLimits) -> bool:
    """Return whether one more visit of an arm may be discarded and repeated.

    `attempt` counts the attempts of the arm in this round from 0.
    """
    return attempt < limits.retries and discarded + 1 <= max(
        limits.most_discarded_share * (visits + 1), 1
    )
