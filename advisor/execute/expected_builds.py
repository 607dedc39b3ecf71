"""What a run may expect of each arm before it is built: the seconds of its build, and its points.

Both are known from stored runs, or from the figures of the kept runs in the catalogue.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from advisor.decide.performance_portability import is_same_work
from advisor.decide.scoring import possible_score
from advisor.domain.errors import RunFileError
from advisor.domain.plan import EAGER, Arm, ArmName
from advisor.domain.run_state import Header, RunState
from advisor.store.store import Store

#: Newest runs of the same work on the same device that are read.
MOST_EARLIER_RUNS = 3


def with_expected_builds(arms: Iterable[Arm], header: Header, store: Store) -> tuple[Arm, ...]:
    """Return the arms with their expected seconds of a cold build and possible points.

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
    return tuple(
        msgspec.structs.replace(
            each,
            expected_build_seconds=_figure_of(each, expected, statistics.median),
            possible_points=_possible_points(each, _figure_of(each, largest, max), header),
        )
        for each in arms
    )


def _possible_points(planned: Arm, speedup: float | None, header: Header) -> float | None:
    if speedup is None:
        return None
    question, catalogue = header.question, header.catalogue
    eager = possible_score(ArmName(EAGER), 1.0, question, catalogue)
    score = possible_score(planned.name, speedup, question, catalogue)
    return None if score is None else round(score - (eager or 0.0), 3)


def _figure_of(
    planned: Arm, figures: Mapping[str, float], choose: Callable[[list[float]], float]
) -> float | None:
    own = figures.get(planned.duplicate_of or planned.id)
    if own is not None:
        return own
    workflows = {name: ArmName.parse(name).workflow for name in figures}
    alike = [each for name, each in figures.items() if workflows[name] == planned.workflow]
    return choose(alike) if alike else None


def _seconds_in_runs(header: Header, store: Store) -> Mapping[str, float]:
    """Return the median seconds of the cold builds in comparable stored runs, by arm."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for state in itertools.islice(_comparable_states(header, store), MOST_EARLIER_RUNS):
        for arm, processes in state.processes.items():
            if processes and processes[0].ready:
                seconds[arm].append(processes[0].build_seconds)
    return {arm: round(statistics.median(found), 1) for arm, found in seconds.items()}


def _comparable_states(header: Header, store: Store) -> Iterator[RunState]:
    for run, other in store.finished_runs(header.question.model.name):
        if other.device_name == header.device_name and is_same_work(
            other.question, header.question
        ):
            with contextlib.suppress(RunFileError):
                yield run.state()
