"""What counts of what was visited: rounds, pairs, and whether an arm's times are valid at all."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from advisor.domain.outcome import Completed, Incorrect, NotEngaged, OutOfMemory
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.worker_events import BlockTimed


def block_value(visit: BlockTimed) -> float:
    """Return what a visit counts for in the race: the logarithm of the median of its calls."""
    return math.log(statistics.median(visit.seconds))


def rounds_of(
    state: RunState, batch_size: int, repeat: int = 0
) -> dict[int, dict[str, BlockTimed]]:
    """Return the visits by round and arm, of the race or of one repetition; of visits that were made again, the last."""
    rounds: dict[int, dict[str, BlockTimed]] = {}
    for arm, processes in state.processes.items():
        for process in processes:
            for visit in process.visits if process.repeat == repeat else ():
                if visit.batch_size == batch_size:
                    rounds.setdefault(visit.round, {})[arm] = visit
    return rounds


def measured_process(state: RunState, arm: str) -> ProcessState | None:
    """Return the arm's last process that came as far as being measured."""
    return next(
        (process for process in reversed(state.processes.get(arm, ())) if process.ready), None
    )


def is_valid(state: RunState, arm: str) -> bool:
    """Say whether the arm's times count: it was found right, and nothing since has taken that back."""
    return measured_process(state, arm) is not None and not any(
        voids(process) for process in state.processes.get(arm, ())
    )


def voids(process: ProcessState) -> bool:
    """Say whether the way a process ended takes back what was measured.

    Trying shapes that were not built may break it, and a repetition may fail, without that; a wrong
    answer never.
    """
    outcome = process.outcome
    if outcome is None or isinstance(outcome, Completed):
        return False
    if isinstance(outcome, OutOfMemory) and not process.ready:
        return False  # it had nothing yet to take back; another process of the arm may have had more room
    return isinstance(outcome, (Incorrect, NotEngaged)) or (
        process.repeat == 0 and outcome.phase != "flex"
    )


def mean_log_speedups(state: RunState, batch_size: int) -> dict[str, float]:
    """Return the mean log speed-up over the baseline of every arm that counts, in the race of a batch size."""
    if state.plan is None:
        return {}
    rounds = rounds_of(state, batch_size)
    series = {
        arm.id: paired(rounds, state.plan.baseline.id, arm.id)
        for arm in state.plan.arms
        if not arm.duplicate_of
    }
    return {
        arm: statistics.fmean(each) for arm, each in series.items() if each and is_valid(state, arm)
    }


def paired(
    rounds: Mapping[int, Mapping[str, BlockTimed]], baseline: str, arm: str
) -> tuple[float, ...]:
    """Return, for each round both ran, the baseline's log seconds minus the arm's."""
    return tuple(
        block_value(visits[baseline]) - block_value(visits[arm])
        for _, visits in sorted(rounds.items())
        if baseline in visits and arm in visits
    )
