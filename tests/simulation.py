"""Times of calls as a machine with weather of its own would give them: the truth is known, and no clock but a pretend one runs.

The environment is common to all arms and correlated in time: a wandering level, a slow warming,
sudden other levels. Beside it each call varies, some are outliers, the first call of a visit is
slower (the neighbour's caches), and a process may be faster or slower than another of the same arm
for as long as it lives.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import builders

from advisor.domain.outcome import Completed
from advisor.domain.plan import Arm
from advisor.domain.run_events import (
    Conditions,
    Ended,
    LoggedEvent,
    Planned,
    RunEvent,
    Spawned,
    WorkerReported,
)
from advisor.domain.run_state import RunState, fold
from advisor.domain.worker_events import BlockTimed, Ready

QUIET_MACHINE = Conditions(seconds=0.05, stolen_share=0.0, queued_share=0.0, throttled_seconds=0.0)
#: The first call of a visit finds its neighbour's caches.
CARRY_OVER = 1.10
BASE_SECONDS = 0.010


@dataclasses.dataclass(frozen=True)
class Weather:
    """How times vary; standard deviations and sizes are shares."""

    call: float
    outlier_probability: float
    outlier: float
    wander: float = 0.0
    wander_seconds: float = 2.0
    warming: float = 0.0
    warming_seconds: float = 30.0
    jumps_per_second: float = 0.0
    jump: float = 0.0
    process: float = 0.0


REGIMES = {
    "independent": Weather(call=0.02, outlier_probability=0.01, outlier=0.3),
    "quiet": Weather(
        call=0.005,
        outlier_probability=0.002,
        outlier=0.2,
        wander=0.004,
        warming=0.01,
        process=0.002,
    ),
    "normal": Weather(
        call=0.02,
        outlier_probability=0.01,
        outlier=0.3,
        wander=0.01,
        warming=0.03,
        jumps_per_second=0.01,
        jump=0.02,
        process=0.004,
    ),
    "noisy": Weather(
        call=0.06,
        outlier_probability=0.04,
        outlier=0.6,
        wander=0.04,
        wander_seconds=3.0,
        warming=0.04,
        jumps_per_second=0.03,
        jump=0.06,
        process=0.008,
    ),
}


class Environment:
    """What all arms of a run meet, and the pretend clock."""

    def __init__(self, weather: Weather, chance: random.Random) -> None:
        self.weather = weather
        self.chance = chance
        self.now = 0.0
        self._wander = chance.gauss(0, weather.wander)
        self._jump = 0.0

    def clock(self) -> float:
        """Return the seconds since the run began."""
        return self.now

    def call(self, log_seconds: float) -> float:
        """Let one call pass and return its seconds."""
        weather, chance = self.weather, self.chance
        level = (
            self._wander
            + self._jump
            + weather.warming * (1 - math.exp(-self.now / weather.warming_seconds))
        )
        seconds = math.exp(log_seconds + level + chance.gauss(0, weather.call))
        if chance.random() < weather.outlier_probability:
            seconds *= 1 + chance.expovariate(1 / weather.outlier)
        self._pass(seconds)
        return seconds

    def _pass(self, seconds: float) -> None:
        weather, chance = self.weather, self.chance
        self.now += seconds
        if weather.wander:
            kept = math.exp(-seconds / weather.wander_seconds)
            self._wander = kept * self._wander + weather.wander * math.sqrt(
                1 - kept * kept
            ) * chance.gauss(0, 1)
        if weather.jumps_per_second and chance.random() < weather.jumps_per_second * seconds:
            self._jump = chance.gauss(0, weather.jump)


class SimulatedSession:
    """Stands for the workers of a run: the pipeline's own code drives it as it drives real ones."""

    def __init__(
        self, environment: Environment, log_gaps: Mapping[str, float], *, calls: int = 5
    ) -> None:
        self.environment = environment
        self.log_gaps = dict(log_gaps)
        self.calls = calls
        self.order: list[tuple[str, int, int]] = []
        #: Log factor by which what an arm does changes from one of its visits on.
        self.shifts: dict[str, tuple[int, float]] = {}
        self._processes: dict[str, tuple[int, float]] = {}
        self._running: set[str] = set()
        self._visit: dict[str, BlockTimed] = {}
        self._visits: dict[str, int] = {}

    def start(
        self, arms: Iterable[tuple[Arm, int]], repeat: int = 0, built: Iterable[str] = ()
    ) -> Iterator[RunEvent]:
        """Start a fresh process of each arm, which has its own luck."""
        del built
        for arm, process in arms:
            self._processes[arm.id] = (
                process,
                self.environment.chance.gauss(0, self.environment.weather.process),
            )
            self._running.add(arm.id)
            yield Spawned(arm=arm.id, process=process, repeat=repeat)
            for said in (builders.process().loaded, builders.checked(1), Ready()):
                yield WorkerReported(arm=arm.id, process=process, said=said)  # type: ignore[arg-type]

    def build(self, arm: str, **_: Any) -> Iterator[RunEvent]:
        """Build nothing."""
        del arm
        yield from ()

    def visit(self, arm: str, batch_size: int, number: int) -> Iterator[RunEvent]:
        """Make the calls of one block."""
        process, luck = self._processes[arm]
        self.order.append((arm, batch_size, number))
        self._visits[arm] = self._visits.get(arm, 0) + 1
        first, shift = self.shifts.get(arm, (0, 0.0))
        level = (
            math.log(BASE_SECONDS)
            + self.log_gaps[arm]
            + luck
            + (shift if self._visits[arm] > first else 0.0)
        )
        lead = self.environment.call(level + math.log(CARRY_OVER))
        seconds = tuple(self.environment.call(level) for _ in range(self.calls))
        visit = BlockTimed(
            batch_size=batch_size,
            round=number,
            seconds=seconds,
            lead_calls=1,
            cpu_seconds=0.0,
            lead_seconds=(lead,),
        )
        self._visit[arm] = visit
        yield WorkerReported(arm=arm, process=process, said=visit)

    def last_visit(self, arm: str) -> BlockTimed | None:
        """Return what the last visit measured."""
        return self._visit.get(arm)

    def last_conditions(self, arm: str) -> Conditions:
        """Return that the machine was fit."""
        del arm
        return QUIET_MACHINE

    def process_number(self, arm: str) -> int:
        """Return the number of the arm's last process."""
        return self._processes[arm][0]

    def is_running(self, arm: str) -> bool:
        """Say whether the arm has a process."""
        return arm in self._running

    def is_built(self, arm: str) -> bool:
        """Say that whatever runs is built."""
        return arm in self._running

    def has_room(self) -> bool:
        """Say that memory is never short."""
        return True

    def stop(self, arms: Collection[str] | None = None) -> Iterator[RunEvent]:
        """End all processes, or those of `arms`."""
        for arm in sorted(self._running if arms is None else self._running & set(arms)):
            yield Ended(arm=arm, process=self._processes[arm][0], outcome=Completed())
            self._running.discard(arm)


class SimulatedRun:
    """A run whose state grows with what happens, as the pipeline keeps it."""

    def __init__(self, arms: Sequence[str]) -> None:
        self.state = RunState()
        self.take([Planned(plan=builders.plan(*arms))])

    def take(self, run_events: Iterable[RunEvent]) -> None:
        """Let everything happen and fold it."""
        for run_event in run_events:
            self.state = fold(
                [LoggedEvent(seq=self.state.seq + 1, at=0.0, run_event=run_event)], self.state
            )


def lower_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Return the one-sided lower bound of Clopper and Pearson."""
    from scipy.special import betaincinv  # noqa: PLC0415 - slow to import

    return (
        float(betaincinv(successes, trials - successes + 1, 1 - confidence)) if successes else 0.0
    )


def upper_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Return the one-sided upper bound of Clopper and Pearson."""
    return 1 - lower_bound(trials - successes, trials, confidence)
