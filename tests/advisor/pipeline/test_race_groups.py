"""When memory is short for all arms at once they race in groups, each with the baseline and the best so far."""

from __future__ import annotations

import dataclasses
import pathlib
import random
import shutil
from collections.abc import Callable, Collection, Iterator
from typing import Any

import builders
import msgspec
import pytest
from builders import BASELINE, DUPLICATE
from simulation import REGIMES, Environment, SimulatedRun, SimulatedSession

from advisor import catalogue, measure
from advisor.context import Context
from advisor.domain.outcome import OutOfMemory
from advisor.domain.plan import REFERENCE
from advisor.domain.question import Budget
from advisor.domain.run_events import (
    Ended,
    LoggedEvent,
    RaceOpened,
    Repeated,
    RunEvent,
    Spawned,
    WorkerReported,
)
from advisor.domain.run_state import fold
from advisor.domain.worker_events import BlockTimed, Ready
from advisor.pipeline import remaining, repetitions, replay
from advisor.pipeline.arms import failed_arms
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.probing import session as visits
from advisor.probing.session import Session
from advisor.probing.supervisor import Worker
from advisor.question.answers import Answers
from advisor.statistics.race import Verdict

ARMS = {BASELINE, "quick", "alike", "misbehaving/floods", "narrow/served"}


class Tight:
    """Room for four workers that are built: the baseline, its duplicate and two more."""

    def __init__(self, watch: object) -> None:
        del watch
        self.built: set[str] = set()

    def take(self, run_event: RunEvent) -> None:
        if (
            isinstance(run_event, WorkerReported)
            and isinstance(run_event.said, Ready)
            and run_event.arm != REFERENCE
        ):
            self.built.add(run_event.arm)
        elif isinstance(run_event, Ended):
            self.built.discard(run_event.arm)

    def is_left(self) -> bool:
        return len(self.built) < 4


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "MemoryHeadroom", Tight)


@pytest.mark.usefixtures("tight")
def test_all_arms_are_raced_though_they_do_not_fit_together_even_after_a_break(
    fake_world: Callable[[], Context],
) -> None:
    answers = Answers(
        batch_sizes="2", budget="6", workflows="quick,alike,misbehaving/floods,narrow/served"
    )
    run = prepare(answers, fake_world())
    opened = 0
    broken_off = execute(run, fake_world())
    for event in broken_off:
        opened += isinstance(event.run_event, RaceOpened)
        said = event.run_event.said if isinstance(event.run_event, WorkerReported) else None
        if opened == 2 and isinstance(said, BlockTimed):
            break
    broken_off.close()  # type: ignore[attr-defined]
    for _ in execute(run, fake_world()):
        pass

    decision = decide(run)
    groups = decision.state.groups[2]
    assert len(groups) == 3
    assert {arm for group in groups for arm in group.arms} == {*ARMS, DUPLICATE}
    assert all({BASELINE, DUPLICATE} < set(group.arms) and len(group.arms) <= 4 for group in groups)
    assert all("quick" in group.arms for group in groups), "the best so far stays"
    assert [group.first_round for group in groups] == sorted(
        {group.first_round for group in groups}
    ), "rounds are counted on"
    (race,) = decision.results.races
    assert race.best == "quick"
    assert {*race.tied, *race.unresolved, *race.eliminated} == ARMS
    assert {measurement.arm for measurement in decision.results.measurements} == ARMS
    assert decision.state.finished
    assert remaining.waiting_arms(decision.state, run.header().question) == set()


class Narrow(Tight):
    """Room for no more than one worker beside the baseline and its duplicate."""

    def is_left(self) -> bool:
        return len(self.built) < 3


def test_an_arm_that_fails_alone_in_its_group_does_not_end_the_races(
    fake_world: Callable[[], Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "MemoryHeadroom", Narrow)
    run = prepare(
        Answers(batch_sizes="2", budget="4", workflows="quick,misbehaving/raises,narrow/served"),
        fake_world(),
    )
    for _ in execute(run, fake_world()):
        pass
    decision = decide(run)
    assert {measurement.arm for measurement in decision.results.measurements} == {
        BASELINE,
        "quick",
        "narrow/served",
    }


#: Milliseconds of the calls of two workflows, each of which is the best at one of two batch sizes.
CROSSED = {"quick": (1, 3), "alike": (3, 1)}


@pytest.fixture
def crossed_world(fake_world: Callable[[], Context], tmp_path: pathlib.Path) -> Context:
    """A world in which the best of one batch size is slow at the other."""
    world = fake_world()
    probes = tmp_path / "probes"
    shutil.copytree(world.probes, probes)
    for name, (one, two) in CROSSED.items():
        seconds = f"({one} if len(inputs[0]) == 1 else {two}) / 1000"
        file = probes / "workflows" / f"{name}.py"
        file.write_text(
            f"{file.read_text()}\ndef build(subject, inputs, request):\n    return honest.Program(subject, {seconds})\n"
        )
    return dataclasses.replace(world, probes=probes)


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "found out"])
def test_the_bests_of_several_batch_sizes_make_room_for_who_waits(
    crossed_world: Context, monkeypatch: pytest.MonkeyPatch, *, is_told: bool
) -> None:
    rooms: list[Tight] = []

    def make_room(watch: object) -> Tight:
        rooms.append(Tight(watch))
        return rooms[-1]

    real = Session._build

    def build(session: Session, worker: Worker, last: list[RunEvent]) -> Iterator[RunEvent]:
        if Tight.is_left(rooms[-1]):
            yield from real(session, worker, last)
        else:
            yield from session.leave_out(
                worker.arm, OutOfMemory(phase="build", reason="the memory is full")
            )

    monkeypatch.setattr(visits, "MemoryHeadroom", make_room)
    monkeypatch.setattr(Session, "_build", build)
    if not is_told:
        monkeypatch.setattr(Session, "has_room", lambda _: True)
    run = prepare(
        Answers(batch_sizes="1,2", budget="6", workflows="quick,alike,narrow/served,narrow/slow"),
        crossed_world,
    )
    for _ in execute(run, crossed_world):
        pass

    decision = decide(run)
    arms = {BASELINE, "quick", "alike", "narrow/served", "narrow/slow"}
    assert {measurement.arm for measurement in decision.results.measurements} == arms
    assert {race.batch_size: race.best for race in decision.results.races} == {
        1: "quick",
        2: "alike",
    }
    groups = decision.state.groups[1]
    assert [len(set(group.arms) & set(CROSSED)) for group in groups] == [2, 1, 1], (
        "one of them stays"
    )
    tried = [len(decision.state.processes[arm]) for arm in ("narrow/served", "narrow/slow")]
    assert tried == ([1, 1] if is_told else [2, 3])


def test_who_ran_out_of_memory_beside_few_is_not_tried_again() -> None:
    out = OutOfMemory(phase="build", reason="the memory is full")
    built = builders.process(*builders.visits([0.4]))
    for others, is_crowded in ((("one",), False), (("one", "two"), True)):
        state = builders.run_state(
            {BASELINE: built, DUPLICATE: built, **dict.fromkeys(others, built), "big": ()}
        )
        spawned, ended = Spawned(arm="big", process=0), Ended(arm="big", process=0, outcome=out)
        state = fold(
            [
                LoggedEvent(seq=1, at=0.0, run_event=spawned),
                LoggedEvent(seq=2, at=0.0, run_event=ended),
            ],
            state,
        )
        assert remaining.oom_beside_others(state) == ({"big"} if is_crowded else set())
        assert "big" in failed_arms(state)
        again = msgspec.structs.replace(
            state, processes={**state.processes, "big": (*state.processes["big"], built)}
        )
        assert "big" not in failed_arms(again), "what came of it with more room counts"


class Scarce(SimulatedSession):
    """Memory for the baseline and two more workers that are built."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.built: set[str] = set()
        self.most = 0

    def build(self, arm: str, **_: Any) -> Iterator[RunEvent]:
        """Take a place."""
        self.built.add(arm)
        self.most = max(self.most, len(self.built))
        yield from ()

    def stop(self, arms: Collection[str] | None = None) -> Iterator[RunEvent]:
        """Give the places back."""
        self.built -= set(self.built if arms is None else arms)
        return super().stop(arms)

    def has_room(self) -> bool:
        """Say whether there is a place."""
        return len(self.built) < 3


def test_a_repetition_is_made_in_groups_that_fit_each_paired_with_the_baseline() -> None:
    arms = ["a", "b", "c", "d", "e"]
    session = Scarce(
        Environment(REGIMES["quiet"], random.Random(0)),
        dict.fromkeys([BASELINE, DUPLICATE, *arms], 0.0),
    )
    run, asked = (
        SimulatedRun(arms),
        builders.question(
            budget=Budget(name="standard", measuring_seconds=9, most_rounds=9, repeats=1)
        ),
    )
    run.take([Repeated(repeat=1, arms=(BASELINE, *arms))])
    run.take(repetitions.repeat(session, lambda: run.state, asked, catalogue.load().presets.guard))  # type: ignore[arg-type]
    assert session.most == 3
    rounds = measure.rounds_of(run.state, 1, repeat=1)
    together = [set(rounds[number]) for number in sorted(rounds)]
    assert together == [
        *[{BASELINE, "a", "b"}] * repetitions.REPEAT_ROUNDS,
        *[{BASELINE, "c", "d"}] * repetitions.REPEAT_ROUNDS,
        *[{BASELINE, "e"}] * repetitions.REPEAT_ROUNDS,
    ]
    assert repetitions.is_complete(run.state, 1, asked)


def verdict(
    kind: Any,
    best: str,
    *,
    tied: tuple[str, ...] = (),
    unresolved: tuple[str, ...] = (),
    rounds: int = 4,
    **out: int,
) -> Verdict:
    return Verdict(kind, best, (best, *tied), unresolved, rounds, out)


@pytest.mark.parametrize(
    ("earlier", "later", "together"),
    [
        (
            verdict("PROVEN", "a", b=4),
            verdict("PROVEN", "a", rounds=9, c=9),
            verdict("PROVEN", "a", rounds=9, b=4, c=9),
        ),
        (
            verdict("PROVEN", "a", b=4),
            verdict("PROVEN", "c", rounds=9, a=9),
            verdict("PROVEN", "c", rounds=9, b=4, a=9),
        ),
        (
            verdict("TIE", "a", tied=("b",)),
            verdict("PROVEN", "a", rounds=9, c=9),
            verdict("TIE", "a", tied=("b",), rounds=9, c=9),
        ),
        (
            verdict("SAFE", "a", unresolved=("b",)),
            verdict("TIE", "a", tied=("c",)),
            verdict("SAFE", "a", tied=("c",), unresolved=("b",)),
        ),
        (
            verdict("TIE", "a", tied=("b",)),
            verdict("PROVEN", "c", a=9),
            verdict("INCONCLUSIVE", "c", unresolved=("b",), a=9),
        ),
        (
            verdict("INCONCLUSIVE", "a", unresolved=("b",)),
            verdict("PROVEN", "a", b=9),
            verdict("PROVEN", "a", b=9),
        ),
    ],
)
def test_two_groups_together_say_no_more_than_was_shown(
    earlier: Verdict, later: Verdict, together: Verdict
) -> None:
    assert replay.join_verdicts(earlier, later, {}) == together


EARLIER = verdict("PROVEN", "a", b=4)


@pytest.mark.parametrize(
    ("later", "log_speedups", "together"),
    [
        (verdict("PROVEN", "b", rounds=9, c=9), {}, verdict("PROVEN", "a", rounds=9, b=4, c=9)),
        (
            verdict("TIE", "b", tied=("c",)),
            {},
            verdict("INCONCLUSIVE", "a", unresolved=("c",), b=4),
        ),
        (
            verdict("PROVEN", "c", b=9),
            {"a": 2.0, "c": 1.0},
            verdict("INCONCLUSIVE", "a", unresolved=("c",), b=4),
        ),
        (
            verdict("PROVEN", "c", b=9),
            {"a": 1.0, "c": 2.0},
            verdict("INCONCLUSIVE", "c", unresolved=("a",), b=9),
        ),
    ],
    ids=["a stand-in wins", "a stand-in ties", "gained less", "gained more"],
)
def test_a_best_that_had_to_make_room_is_beaten_only_by_who_gained_more(
    later: Verdict, log_speedups: dict[str, float], together: Verdict
) -> None:
    assert replay.join_verdicts(EARLIER, later, log_speedups) == together
