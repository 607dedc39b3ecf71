"""Summarise the builds of an arm: with empty caches and with those of an earlier process."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.measurement import BuildSeconds
from advisor.domain.run_state import ProcessState


def summarise_builds(processes: Sequence[ProcessState]) -> BuildSeconds:
    """Return the seconds of the cold and the warm builds; the processes are in order."""
    cold, warm = _cold_process(processes), _warm_process(processes)
    started = cold.build_started
    return BuildSeconds(
        cold=_build_seconds(cold),
        warm=_build_seconds(warm) if warm else None,
        worst=_worst_build_seconds(cold),
        processors=started.processors if started else None,
        builds_at_once=started.builds_at_once if started else None,
        proven_cold=is_proven_cold(cold),
    )


def is_proven_cold(process: ProcessState) -> bool | None:
    """Return whether the build started with empty caches and hit none; None if not known."""
    if process.caches is None:
        return None
    if process.caches.bytes_before:
        return False
    # Hits with empty caches can come from equal parts of one model.
    return None if process.caches.hits else True


def _cold_process(processes: Sequence[ProcessState]) -> ProcessState:
    """Return the first process, or a later one that was built alone where the first was not."""
    first = processes[0]
    if first.build_started is None or first.build_started.builds_at_once == 1:
        return first
    return next((each for each in processes[1:] if _is_cold_alone(each, first)), first)


def _is_cold_alone(process: ProcessState, first: ProcessState) -> bool:
    """Return whether the process built alone and without the caches that `first` had left."""
    return (
        process.build_started is None
        and process.caches is not None
        and process.caches.bytes_before == 0
        and first.caches is not None
        and first.caches.bytes_after > 0
    )


def _warm_process(processes: Sequence[ProcessState]) -> ProcessState | None:
    """Return the last process that found the caches of an earlier one; None without any."""
    first, *others = processes
    return next((each for each in reversed(others) if not _is_cold_alone(each, first)), None)


def _worst_build_seconds(process: ProcessState) -> float | None:
    seconds = [built.build_seconds + built.first_call_seconds for built in process.built.values()]
    return max(seconds, default=None)


def _build_seconds(process: ProcessState) -> float:
    return sum(built.build_seconds + built.first_call_seconds for built in process.built.values())
