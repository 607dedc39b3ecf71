"""Which arms race in the next group, and which leaders are stopped to free memory for them."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import builders
import msgspec
import pytest
import sessions
from builders import BASELINE, DUPLICATE
from sessions import LimitedMemory

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.decide.rounds import failed_arms
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import Planned, RunEvent, WorkerEnded, WorkerSpawned
from advisor.domain.run_state import resume_command
from advisor.errors import UnknownRunError
from advisor.execute import building, remaining
from advisor.execute.recorder import Recorder
from advisor.execute.remaining import newest_resumable
from advisor.probing import session as probing_session
from advisor.probing.session import Session
from advisor.probing.worker_process import Worker
from advisor.store.store import Store
from probes.wire.outcome import Failure, Outcome
from probes.wire.shape import Shape

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
            f"    return eager.Program(subject, {seconds})\n"
        )
    return dataclasses.replace(context, probes=probes)


@pytest.mark.slow
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
        batch_sizes="1,2",
        budget="1",
        all_arms=True,
        workflows="quick,alike,narrow/served,narrow/slow",
    )
    run = sessions.execute_run(crossed_context, answers)
    results, state = decide(run).results, run.state()
    arms = {BASELINE, "quick", "alike", "narrow/served", "narrow/slow"}
    assert {measurement.arm for measurement in results.measurements} == arms
    assert {race.shape.batch_size: race.best for race in results.races} == {
        1: "quick",
        2: "alike",
    }
    leaders = [set(group.arms) & set(CROSSED_MILLISECONDS) for group in state.groups[Shape(1)]]
    assert list(map(len, leaders)) == [2, 1, 1]
    started = tuple(
        sum(process.repeat == 0 for process in state.processes[arm])
        for arm in ("narrow/served", "narrow/slow")
    )
    assert started == processes


def limit_memory(monkeypatch: pytest.MonkeyPatch, *, is_headroom_known: bool) -> None:
    """Let a build without memory fail; `has_memory_headroom` is right only if it is known."""
    memory = LimitedMemory(4)

    real_build = Session._build

    def build(session: Session, worker: Worker, deferred: list[RunEvent]) -> Iterator[RunEvent]:
        if memory.fits_another_worker():
            yield from real_build(session, worker, deferred)
        else:
            yield from session.drop(
                worker.arm, Failure("out-of-memory", phase="build", reason="the memory is full")
            )

    monkeypatch.setattr(building, "builds_at_once", lambda _: 1)
    monkeypatch.setattr(probing_session, "MemoryHeadroom", lambda _: memory)
    monkeypatch.setattr(Session, "_build", build)
    if not is_headroom_known:
        monkeypatch.setattr(Session, "has_memory_headroom", lambda *_: True)


@pytest.mark.parametrize(
    ("residents", "is_tried_again"), [(("one",), False), (("one", "two"), True)]
)
def test_an_arm_that_ran_out_of_memory_beside_several_arms_is_tried_again(
    residents: tuple[str, ...], *, is_tried_again: bool
) -> None:
    outcome = Failure("out-of-memory", phase="build", reason="the memory is full")
    built = builders.process(*builders.visits([0.4]))
    processes: dict[str, Any] = {
        BASELINE: built,
        DUPLICATE: built,
        **dict.fromkeys(residents, built),
        "big": (),
    }
    recorder = Recorder(builders.run_state(processes), clock=lambda: 0.0)
    recorder.record(WorkerSpawned(arm="big", process=0))
    recorder.record(WorkerEnded(arm="big", process=0, outcome=Outcome(outcome)))
    state = recorder.state
    assert remaining.oom_beside_others(state) == ({"big"} if is_tried_again else set())
    assert "big" in failed_arms(state)
    retried = {**state.processes, "big": (*state.processes["big"], built)}
    assert "big" not in failed_arms(msgspec.structs.replace(state, processes=retried))


REFUSED = Outcome(Failure("model-refused", phase="load", reason="it has no weights"))
FULL = Outcome(Failure("disk-full", phase="load", reason="the disk is full"))


def make_run(store: Store, run_id: str, outcome: Outcome | None = None) -> None:
    """Store an unfinished run, whose reference ended with `outcome` if that is given."""
    run_events: list[RunEvent] = [Planned(plan=builders.plan("compiled"))]
    if outcome is not None:
        run_events += [
            WorkerSpawned(arm=REFERENCE, process=0),
            WorkerEnded(arm=REFERENCE, process=0, outcome=outcome),
        ]
    with store.create(builders.header(run_id=run_id)).writer() as writer:
        for event in builders.events(*run_events):
            writer.append(event)


@pytest.mark.parametrize(
    ("older", "newer", "chosen"),
    [
        (None, None, "newer"),
        (None, REFUSED, "older"),
        (REFUSED, None, "newer"),
        (REFUSED, REFUSED, "newer"),
        (None, FULL, "newer"),
    ],
)
def test_a_run_with_a_failed_model_is_chosen_only_if_no_other_can_go_on(
    older: Outcome | None, newer: Outcome | None, chosen: str, home: pathlib.Path
) -> None:
    store = Store(home)
    ids = {"older": "20261121-000000-0000", "newer": "20261122-000000-0000"}
    make_run(store, ids["older"], older)
    make_run(store, ids["newer"], newer)
    assert newest_resumable(store).directory.name == ids[chosen]


@pytest.mark.parametrize(("outcome", "resumable"), [(None, True), (REFUSED, False), (FULL, True)])
def test_arms_are_measured_by_resuming_only_a_run_that_can_go_on(
    outcome: Outcome | None, resumable: bool, home: pathlib.Path
) -> None:
    store, run_id = Store(home), "20261121-000000-0000"
    make_run(store, run_id, outcome)
    answer = decide(store.find(run_id))
    assert answer.problem is not None
    step = resume_command(run_id) if resumable else answer.problem.next_step
    assert (answer.finished, answer.resumable) == (False, resumable)
    assert {entry.fix for entry in answer.unmeasured if entry.arm == "compiled"} == {step}


def test_without_an_unfinished_run_there_is_nothing_to_resume(home: pathlib.Path) -> None:
    with pytest.raises(UnknownRunError):
        newest_resumable(Store(home))
