"""Correct the times of an arm for changes of the machine's speed between visits.

A speed-up compares visits of one round, so it holds while the machine speeds up or slows down. The
median times of two arms do not: each falls into the fast or the slow state by chance, and an arm
that took part in few rounds saw few states.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

import msgspec

from advisor.domain.interval import Interval
from advisor.domain.measurement import CallSeconds, Measurement
from probes.wire.events import BlockTimed


def typical_seconds(visits: Sequence[BlockTimed]) -> float:
    """Return the median over the visits of each visit's median."""
    return statistics.median(statistics.median(visit.seconds) for visit in visits)


def correct_drift(
    visits: Sequence[BlockTimed], baseline_visits: Sequence[BlockTimed], speedup: float
) -> list[BlockTimed]:
    """Return the visits with their times multiplied by one factor.

    With it, `typical_seconds` of the visits is that of the baseline divided by the speed-up.
    """
    factor = typical_seconds(baseline_visits) / speedup / typical_seconds(visits)
    return [_multiplied(visit, factor) for visit in visits]


def _multiplied(visit: BlockTimed, factor: float) -> BlockTimed:
    return dataclasses.replace(
        visit,
        seconds=tuple(factor * each for each in visit.seconds),
        first_token_seconds=tuple(factor * each for each in visit.first_token_seconds),
    )


def bound_by_speedups(measurement: Measurement, baseline: Measurement) -> Measurement:
    """Return the measurement with bounds of its call times that fit its speed-ups.

    A time is the baseline's over the speed-up, and its logarithmic half widths are the root of the
    sum of the squares of both. The baseline keeps the bounds of its own visits.
    """
    if measurement.arm == baseline.arm:
        return measurement
    times = {cell.shape: cell.seconds for cell in baseline.cells}
    cells = tuple(
        msgspec.structs.replace(
            cell, seconds=_bounded(cell.seconds, times[cell.shape], cell.speedup)
        )
        for cell in measurement.cells
    )
    return msgspec.structs.replace(measurement, cells=cells)


def _bounded(seconds: CallSeconds, baseline: CallSeconds, speedup: Interval) -> CallSeconds:
    if not (baseline.low and baseline.high and speedup.low and speedup.high):
        return msgspec.structs.replace(seconds, low=None, high=None)
    # A greater speed-up is a shorter time.
    shorter = math.hypot(
        math.log(baseline.median / baseline.low), math.log(speedup.high / speedup.value)
    )
    longer = math.hypot(
        math.log(baseline.high / baseline.median), math.log(speedup.value / speedup.low)
    )
    return msgspec.structs.replace(
        seconds,
        low=seconds.median * math.exp(-shorter),
        high=seconds.median * math.exp(longer),
    )
