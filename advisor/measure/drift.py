"""Correct the times of an arm for what the speed of the machine changed between visits.

A speed-up compares visits of one round, so it holds while the machine speeds up or slows down. The
median times of two arms do not: each falls into the fast or the slow state by chance, and an arm
that took part in few rounds saw few states.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from advisor.domain.worker_events import BlockTimed


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
    streamed = visit.streamed_seconds
    return msgspec.structs.replace(
        visit,
        seconds=tuple(factor * each for each in visit.seconds),
        first_token_seconds=tuple(factor * each for each in visit.first_token_seconds),
        streamed_seconds=None if streamed is None else factor * streamed,
    )
