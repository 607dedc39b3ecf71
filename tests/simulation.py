"""A simulated machine with known true speeds, autocorrelated noise and a simulated clock.

Noise that is common to all arms: a level that wanders, warms up slowly and jumps. Noise of single
calls: a spread, outliers, and a slower first call of each visit. Each process has a constant offset
of its own.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
import random
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import builders
import sessions

from advisor.decide.answers import answer_from_state
from advisor.domain.answer import Answer
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run_events import (
    ArmsPlanned,
    Conditions,
    RunEvent,
    WorkerEnded,
    WorkerReported,
    WorkerSpawned,
)
from advisor.domain.run_state import Header, RunState
from advisor.execute import racing, repetitions
from advisor.execute.active_run import ActiveRun, Recorder, TimeSpan
from advisor.store.store import Store
from probes.events import Ready, Visited
from probes.outcome import Outcome
from probes.shape import Shape

#: Within all limits.
QUIET_CONDITIONS = Conditions(
    seconds=0.05, stolen_share=0.0, queued_share=0.0, throttled_seconds=0.0
)
#: The first call of a visit is slower, because the caches hold another arm's data.
FIRST_CALL_FACTOR = 1.10
BASE_SECONDS = 0.010


@dataclasses.dataclass(frozen=True)
class NoiseModel:
    """Noise of the seconds of calls; standard deviations and sizes are shares."""

    call: float
    outlier_probability: float
    outlier: float
    wander: float = 0.0
    #: Correlation time of the wandering level.
    wander_seconds: float = 2.0
    warming: float = 0.0
    warming_seconds: float = 30.0
    jumps_per_second: float = 0.0
    jump: float = 0.0
    #: Between processes of one arm.
    process: float = 0.0


NOISE_LEVELS = {
    "independent": NoiseModel(0.02, 0.01, 0.3),
    "quiet": NoiseModel(0.005, 0.002, 0.2, wander=0.004, warming=0.01, process=0.002),
    "normal": NoiseModel(
        0.02, 0.01, 0.3, 0.01, warming=0.03, jumps_per_second=0.01, jump=0.02, process=0.004
    ),
    "noisy": NoiseModel(0.06, 0.04, 0.6, 0.04, 3.0, 0.04, 30.0, 0.03, 0.06, 0.008),
}


class SimulatedMachine:
    """The noise common to all arms of a run, and the simulated clock."""

    def __init__(self, noise: NoiseModel, generator: random.Random) -> None:
        self.noise = noise
        self.generator = generator
        self.now = 0.0
        self._wander = generator.gauss(0, noise.wander)
        self._jump = 0.0

    def clock(self) -> float:
        """Return the seconds since the run began."""
        return self.now

    def call(self, log_seconds: float) -> float:
        noise, generator = self.noise, self.generator
        warming = noise.warming * (1 - math.exp(-self.now / noise.warming_seconds))
        level = self._wander + self._jump + warming
        seconds = math.exp(log_seconds + level + generator.gauss(0, noise.call))
        if generator.random() < noise.outlier_probability:
            seconds *= 1 + generator.expovariate(1 / noise.outlier)
        self._advance(seconds)
        return seconds

    def _advance(self, seconds: float) -> None:
        noise, generator = self.noise, self.generator
        self.now += seconds
        if noise.wander:
            kept = math.exp(-seconds / noise.wander_seconds)
            step = noise.wander * math.sqrt(1 - kept * kept) * generator.gauss(0, 1)
            self._wander = kept * self._wander + step
        if noise.jumps_per_second and generator.random() < noise.jumps_per_second * seconds:
            self._jump = generator.gauss(0, noise.jump)


class SimulatedSession:
    """Replaces the session with worker processes; the pipeline drives it without changes."""

    headroom = types.SimpleNamespace(fits_another_worker=lambda: True)

    def __init__(
        self,
        log_gaps: Mapping[str, float],
        noise: str = "quiet",
        generator: random.Random | None = None,
    ) -> None:
        self.machine = SimulatedMachine(NOISE_LEVELS[noise], generator or random.Random(0))
        #: The duplicate is as fast as the baseline.
        self.log_gaps = {**log_gaps, builders.DUPLICATE: log_gaps[builders.BASELINE]}
        #: Arm, shape and round of every visit.
        self.order: list[tuple[str, Shape, int]] = []
        self.build_ends: dict[str, float] = {}
        self.pool = self
        #: By arm, also with the constant offset of the process's log seconds.
        self.workers: dict[str, types.SimpleNamespace] = {}
        #: Whether packages are compiled while the workers of a repetition import them.
        self._is_compiling = False

    def stop_compiling(self) -> None:
        self._is_compiling = False

    def start(
        self, arms: Iterable[tuple[Arm, int]], repeat: int = 0, built: Iterable[str] = ()
    ) -> Iterator[RunEvent]:
        del built
        self._is_compiling = repeat > 0
        for planned, process in arms:
            offset = self.machine.generator.gauss(0, self.machine.noise.process)
            self.workers[planned.id] = types.SimpleNamespace(
                process=process, offset=offset, outcome=None, last_conditions=QUIET_CONDITIONS
            )
            yield WorkerSpawned(arm=planned.id, process=process, repeat=repeat)
            for worker_event in (builders.process().opened, builders.checked(1), Ready()):
                yield WorkerReported(arm=planned.id, process=process, worker_event=worker_event)  # type: ignore[arg-type]

    def build(self, arm: str, *, end: float = math.inf) -> Iterator[RunEvent]:
        """Build nothing; note until when the arm might have built."""
        self.build_ends[arm] = end
        yield from ()

    def visit(self, arm: str, shape: Shape, number: int) -> Iterator[RunEvent]:
        assert not self._is_compiling
        worker = self.workers[arm]
        self.order.append((arm, shape, number))
        level = math.log(BASE_SECONDS) + self.log_gaps[arm] + worker.offset
        first_call = self.machine.call(level + math.log(FIRST_CALL_FACTOR))
        worker.last_visit = Visited(
            shape=shape,
            round=number,
            seconds=tuple(self.machine.call(level) for _ in range(5)),
            warmup_seconds=(first_call,),
            streamed_seconds=None,
        )
        yield WorkerReported(arm=arm, process=worker.process, worker_event=worker.last_visit)

    def is_running(self, arm: str) -> bool:
        return arm in self.workers and self.workers[arm].outcome is None

    #: Every running arm is built.
    is_built = is_warmed_up = is_running

    def stop(self, arms: Collection[str] | None = None) -> Iterator[RunEvent]:
        for arm in filter(self.is_running, sorted(self.workers if arms is None else arms)):
            self.workers[arm].outcome = Outcome()
            yield WorkerEnded(arm=arm, process=self.workers[arm].process, outcome=Outcome())


def simulate_run(
    session: SimulatedSession, question: Question, *, repeats: bool = True
) -> tuple[Header, RunState]:
    """Race the arms by the pipeline's rules, then repeat the leaders.

    Each arm is a workflow of the same grades, so that the speeds decide.
    """
    arms = [arm for arm in session.log_gaps if arm not in {builders.BASELINE, builders.DUPLICATE}]
    workflows = (builders.workflow(arm) for arm in arms)
    header = builders.header(question=question, catalogue=builders.catalogue(*workflows))
    recorder = new_recorder(arms)
    active = active_of(session, recorder, question, functools.partial(answer_from_state, header))
    started = [(each, 0) for each in recorder.state.plan.arms]
    for steps in (session.start(started), racing.race_shapes(active), session.stop()):
        sessions.exhaust(recorder.record_each(steps))
    if repeats:
        sessions.exhaust(recorder.record_each(repetitions.repeat_arms(active)))
    return header, recorder.state


def unexpected(_: RunState) -> Answer:
    raise AssertionError


class StillSession:
    """A session in which nothing happens."""

    def __init__(
        self,
        building: Iterable[str] = (),
        ready: Iterable[str] = (),
        ended: Iterable[str] = (),
        *,
        fits: bool = True,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.pool = self
        self.is_building = {*building}.__contains__
        self.is_built = self.is_prepared = self.is_warmed_up = {*ready}.__contains__
        self.is_running = {*building, *ready}.__contains__
        self.has_started = {*building, *ready, *ended}.__contains__
        self.has_failed = {*ended}.__contains__
        self.headroom = types.SimpleNamespace(fits_another_worker=lambda *_: fits)
        self.machine = types.SimpleNamespace(clock=clock)


def active_of(
    session: Any,
    recorder: Recorder | RunState,
    question: Question,
    answer_of: Callable[[RunState], Answer] = unexpected,
    seconds: float = math.inf,
    **changes: Any,
) -> ActiveRun:
    """Return a run in progress since second 0 of a simulated machine, with the shipped presets."""
    if isinstance(recorder, RunState):
        recorder = Recorder(recorder, clock=lambda: 0.0, store=lambda _: None)
    made = ActiveRun(
        session=session,
        recorder=recorder,
        header=builders.header(question=question),
        store=Store(pathlib.Path(os.devnull)),
        time=TimeSpan(session.machine.clock, 0.0, seconds),
        builds_at_once=1,
        answer_of=answer_of,
    )
    return builders.replace(made, **changes)


def new_recorder(arms: Sequence[str]) -> Recorder:
    """Return the recorder of a new run with these arms, the baseline and its duplicate.

    All time stamps are 0; nothing is stored.
    """
    recorder = Recorder(RunState(), clock=lambda: 0.0, store=lambda _: None)
    recorder.record(ArmsPlanned(plan=builders.plan(*arms)))
    return recorder
