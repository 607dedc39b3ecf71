"""Estimate what the builds of a plan take and promise, from stored runs and the catalogue."""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import msgspec

from advisor.decide.other_platforms import is_same_work
from advisor.domain.plan import Arm, Plan
from advisor.domain.run import Header
from advisor.domain.run_state import RunState
from advisor.errors import RunFileError
from advisor.execute.build_limits import build_seconds
from advisor.store.store import Store

#: Newest runs of the same work on the same device that are read.
MOST_RUNS = 3


def with_expected_builds(plan: Plan, header: Header, store: Store) -> Plan:
    """Return the plan with each arm's expected seconds of a cold build and largest speed-up.

    Both are only set where they are known. Stored runs of the same work on this device come before
    the seconds of the catalogue.
    """
    earlier = header.catalogue.earlier_runs.get(header.question.device, {})
    typical = {arm: figures.build_seconds for arm, figures in earlier.items()}
    expected = {**typical, **_seconds_in_runs(header, store)}
    largest = {
        arm: figures.largest_speedup
        for arm, figures in earlier.items()
        if figures.largest_speedup is not None
    }
    return msgspec.structs.replace(
        plan,
        arms=tuple(
            msgspec.structs.replace(
                arm,
                expected_build_seconds=_figure_of(arm, expected, statistics.median),
                largest_speedup=_figure_of(arm, largest, max),
            )
            for arm in plan.arms
        ),
    )


def _figure_of(
    arm: Arm, figures: Mapping[str, float], choose: Callable[[list[float]], float]
) -> float | None:
    """Return the figure of the arm, else the one that `choose` makes of its workflow's arms."""
    own = figures.get(arm.duplicate_of or arm.id)
    if own is not None:
        return own
    alike = [figure for name, figure in figures.items() if name.partition("/")[0] == arm.workflow]
    return choose(alike) if alike else None


def _seconds_in_runs(header: Header, store: Store) -> Mapping[str, float]:
    """Return the median seconds of the cold builds in comparable stored runs, by arm."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for state in _comparable_states(header, store):
        for arm, processes in state.processes.items():
            if processes and processes[0].ready:
                seconds[arm].append(build_seconds(processes[0]))
    return {arm: round(statistics.median(found), 1) for arm, found in seconds.items()}


def _comparable_states(header: Header, store: Store) -> Iterator[RunState]:
    """Yield the states of the newest comparable runs; runs that cannot be read are skipped."""
    found = 0
    for run, other in store.finished_runs(header.question.model.name):
        if found == MOST_RUNS:
            return
        if other.device == header.device and is_same_work(other.question, header.question):
            with contextlib.suppress(RunFileError):
                yield run.state()
                found += 1
