"""When memory is too short for all arms at once, they race in groups.

Each group contains the baseline, its duplicate and the best arms so far.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import random
import shutil
from collections.abc import Callable, Collection, Iterator
from typing import Any

import builders
import msgspec
import pytest
import sessions
from builders import BASELINE, DUPLICATE
from simulation import NOISE_LEVELS, SimulatedMachine, SimulatedSession, new_recorder

from advisor import catalogue, measure
from advisor.context import Context
from advisor.domain.outcome import OutOfMemory
from advisor.domain.plan import REFERENCE
from advisor.domain.question import Budget
from advisor.domain.run_events import (
    LoggedEvent,
    RaceOpened,
    RepetitionStarted,
    RunEvent,
    WorkerEnded,
    WorkerReported,
    WorkerSpawned,
)
from advisor.domain.worker_events import BlockTimed, Ready
from advisor.pipeline import remaining, repetitions
from advisor.pipeline.arms import failed_arms
from advisor.pipeline.decision import Decision, decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.pipeline.recorder import Recorder
from advisor.probing import session as probing_session
from advisor.probing.session import Session
from advisor.probing.worker_process import Worker
from advisor.question.answers import Answers

ARMS = {BASELINE, "quick", "alike", "misbehaving/floods", "narrow/served"}


class MemoryForFour:
    """Memory for four built workers: the baseline, its duplicate and two more."""

    most_built = 4

    def __init__(self, monitor: object) -> None:
        del monitor
        self.built: set[str] = set()

    def update(self, run_event: RunEvent) -> None:
        if (
            isinstance(run_event, WorkerReported)
            and isinstance(run_event.worker_event, Ready)
            and run_event.arm != REFERENCE
        ):
            self.built.add(run_event.arm)
        elif isinstance(run_event, WorkerEnded):
            self.built.discard(run_event.arm)

    def fits_another_worker(self) -> bool:
        return len(self.built) < self.most_built


class MemoryForThree(MemoryForFour):
    """Memory for the baseline, its duplicate and one more worker."""

    most_built = 3


@pytest.fixture(scope="module")
def resumed_run(module_context: Context) -> Decision:
    """The decision on a run in groups that was interrupted in its second race."""
    answers = Answers(
        batch_sizes="2", budget="2", workflows="quick,alike,misbehaving/floods,narrow/served"
    )
    run = prepare(answers, module_context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probing_session, "MemoryHeadroom", MemoryForFour)
        interrupt_in_second_race(execute(run, module_context))
        sessions.exhaust(execute(run, module_context))
    return decide(run)


def interrupt_in_second_race(events: Iterator[LoggedEvent]) -> None:
    opened_races = 0
    with contextlib.closing(events):  # type: ignore[type-var]
        for event in events:
            opened_races += isinstance(event.run_event, RaceOpened)
            if opened_races == 2 and isinstance(sessions.worker_event_of(event), BlockTimed):
                return


def test_all_arms_race_in_groups_if_they_do_not_fit_together(resumed_run: Decision) -> None:
    state = resumed_run.state
    groups = state.groups[2]
    assert len(groups) == 3
    assert {arm for group in groups for arm in group.arms} == {*ARMS, DUPLICATE}
    assert {measurement.arm for measurement in resumed_run.results.measurements} == ARMS
    assert state.finished
    assert remaining.waiting_arms(state, resumed_run.header.question) == set()


def test_every_group_has_the_controls_and_the_best_arm(resumed_run: Decision) -> None:
    groups = resumed_run.state.groups[2]
    assert all({BASELINE, DUPLICATE} < set(group.arms) for group in groups)
    assert all(len(group.arms) <= MemoryForFour.most_built for group in groups)
    assert all("quick" in group.arms for group in groups)


def test_rounds_are_numbered_on_from_group_to_group(resumed_run: Decision) -> None:
    first_rounds = [group.first_round for group in resumed_run.state.groups[2]]
    assert first_rounds == sorted(set(first_rounds))


def test_the_groups_together_have_one_verdict_on_all_arms(resumed_run: Decision) -> None:
    (race,) = resumed_run.results.races
    assert race.best == "quick"
    assert {*race.tied, *race.unresolved, *race.eliminated} == ARMS


def test_an_arm_that_fails_alone_in_its_group_does_not_end_the_races(
    fake_context: Callable[[], Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing_session, "MemoryHeadroom", MemoryForThree)
    answers = Answers(
        batch_sizes="2", budget="1", workflows="quick,misbehaving/raises,narrow/served"
    )
    decision = decide(sessions.execute_run(fake_context(), answers))
    assert {measurement.arm for measurement in decision.results.measurements} == {
        BASELINE,
        "quick",
        "narrow/served",
    }


#: Milliseconds of the calls of two workflows at batch sizes 1 and 2: each is best at one of them.
CROSSED_MILLISECONDS = {"quick": (1, 3), "alike": (3, 1)}


@pytest.fixture
def crossed_context(fake_context: Callable[[], Context], tmp_path: pathlib.Path) -> Context:
    """A context in which the best arm of one batch size is slow at the other."""
    context = fake_context()
    probes = tmp_path / "probes"
    shutil.copytree(context.probes, probes)
    for name, (at_one, at_two) in CROSSED_MILLISECONDS.items():
        seconds = f"({at_one} if len(inputs[0]) == 1 else {at_two}) / 1000"
        file = probes / "workflows" / f"{name}.py"
        file.write_text(
            f"{file.read_text()}\n"
            "def build(subject, inputs, request):\n"
            f"    return honest.Program(subject, {seconds})\n"
        )
    return dataclasses.replace(context, probes=probes)


@pytest.mark.parametrize(
    ("is_headroom_known", "processes"),
    [
        pytest.param(True, (1, 1), id="the headroom is known"),
        pytest.param(False, (2, 3), id="builds run out of memory"),
    ],
)
def test_all_leaders_but_one_are_stopped_for_arms_that_wait(
    crossed_context: Context,
    monkeypatch: pytest.MonkeyPatch,
    processes: tuple[int, int],
    *,
    is_headroom_known: bool,
) -> None:
    limit_memory(monkeypatch, is_headroom_known=is_headroom_known)
    answers = Answers(
        batch_sizes="1,2", budget="1", workflows="quick,alike,narrow/served,narrow/slow"
    )
    decision = decide(sessions.execute_run(crossed_context, answers))
    arms = {BASELINE, "quick", "alike", "narrow/served", "narrow/slow"}
    assert {measurement.arm for measurement in decision.results.measurements} == arms
    assert {race.batch_size: race.best for race in decision.results.races} == {
        1: "quick",
        2: "alike",
    }
    leaders = [set(group.arms) & set(CROSSED_MILLISECONDS) for group in decision.state.groups[1]]
    assert list(map(len, leaders)) == [2, 1, 1]
    started = tuple(len(decision.state.processes[arm]) for arm in ("narrow/served", "narrow/slow"))
    assert started == processes


def limit_memory(monkeypatch: pytest.MonkeyPatch, *, is_headroom_known: bool) -> None:
    """Let a build without memory fail; `has_memory_headroom` says so beforehand only if known."""
    memories: list[MemoryForFour] = []

    def new_memory(monitor: object) -> MemoryForFour:
        memories.append(MemoryForFour(monitor))
        return memories[-1]

    real_build = Session._build

    def build(session: Session, worker: Worker, deferred: list[RunEvent]) -> Iterator[RunEvent]:
        if memories[-1].fits_another_worker():
            yield from real_build(session, worker, deferred)
        else:
            yield from session.drop(
                worker.arm, OutOfMemory(phase="build", reason="the memory is full")
            )

    monkeypatch.setattr(probing_session, "MemoryHeadroom", new_memory)
    monkeypatch.setattr(Session, "_build", build)
    if not is_headroom_known:
        monkeypatch.setattr(Session, "has_memory_headroom", lambda _: True)


@pytest.mark.parametrize(
    ("residents", "is_tried_again"), [(("one",), False), (("one", "two"), True)]
)
def test_an_arm_that_ran_out_of_memory_beside_several_arms_is_tried_again(
    residents: tuple[str, ...], *, is_tried_again: bool
) -> None:
    outcome = OutOfMemory(phase="build", reason="the memory is full")
    built = builders.process(*builders.visits([0.4]))
    processes: dict[str, Any] = {
        BASELINE: built,
        DUPLICATE: built,
        **dict.fromkeys(residents, built),
        "big": (),
    }
    recorder = Recorder(builders.run_state(processes), clock=lambda: 0.0)
    recorder.record(WorkerSpawned(arm="big", process=0))
    recorder.record(WorkerEnded(arm="big", process=0, outcome=outcome))
    state = recorder.state
    assert remaining.oom_beside_others(state) == ({"big"} if is_tried_again else set())
    assert "big" in failed_arms(state)
    retried = {**state.processes, "big": (*state.processes["big"], built)}
    assert "big" not in failed_arms(msgspec.structs.replace(state, processes=retried))


class MemoryLimitedSession(SimulatedSession):
    """Memory for three built workers: the baseline and two more."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.built: set[str] = set()
        self.most_built = 0

    def build(self, arm: str, **_: Any) -> Iterator[RunEvent]:
        """Count a built worker."""
        self.built.add(arm)
        self.most_built = max(self.most_built, len(self.built))
        yield from ()

    def stop(self, arms: Collection[str] | None = None) -> Iterator[RunEvent]:
        """Forget the stopped workers."""
        self.built -= set(self.built if arms is None else arms)
        return super().stop(arms)

    def has_memory_headroom(self) -> bool:
        """Return whether one more worker fits."""
        return len(self.built) < 3


def test_a_repetition_runs_in_groups_that_fit_in_memory_each_with_the_baseline() -> None:
    arms = ["a", "b", "c", "d", "e"]
    session = MemoryLimitedSession(
        SimulatedMachine(NOISE_LEVELS["quiet"], random.Random(0)),
        dict.fromkeys([BASELINE, DUPLICATE, *arms], 0.0),
    )
    recorder = new_recorder(arms)
    budget = Budget(name="standard", measuring_seconds=9, most_rounds=9, repeats=1)
    question = builders.question(budget=budget)
    recorder.record(RepetitionStarted(repeat=1, arms=(BASELINE, *arms)))
    sessions.exhaust(
        repetitions.repeat_leaders(session, recorder, question, catalogue.load().presets.guard)  # type: ignore[arg-type]
    )
    assert session.most_built == 3
    rounds = measure.visits_by_round(recorder.state, 1, repeat=1)
    visited = [set(rounds[number]) for number in sorted(rounds)]
    assert visited == [
        *[{BASELINE, "a", "b"}] * repetitions.REPEAT_ROUNDS,
        *[{BASELINE, "c", "d"}] * repetitions.REPEAT_ROUNDS,
        *[{BASELINE, "e"}] * repetitions.REPEAT_ROUNDS,
    ]
    assert repetitions.is_repetition_complete(recorder.state, 1, question)
