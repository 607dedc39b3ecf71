"""What is kept of a fleet's races, whatever becomes of their nodes: driven by a cluster that only says what it is told to."""

from __future__ import annotations

import fcntl
import pathlib
from collections.abc import Callable, Iterator, Mapping

import builders
import pytest
import recorded_runs

from advisor.context import Context
from advisor.domain.fleet import Answered, Order, Pool
from advisor.errors import RunFileError, RunOfFleetError, UnknownRunError
from advisor.fleet import Begun, Delivered, Notice, Told, Undone, ask, assign, node
from advisor.fleet.node import Packed, Task
from advisor.pipeline.decision import decide
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store import Run, Store

ORDER = Order(
    fleet_id="20261121-120000-f1ee",
    created="2026-11-21T12:00:00+00:00",
    models=("demo", "other"),
    pools=(Pool(kind="H200", count=2, price_per_hour=3.5), Pool(kind="cpu", count=1)),
)


class Scripted:
    """A cluster whose notices are known beforehand."""

    def __init__(self, *notices: Notice) -> None:
        self.notices = notices
        self.tasks: Mapping[int, Task] = {}

    def devices(self) -> Mapping[str, int]:
        return {"H200": 2, "cpu": 1}

    def run(self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]) -> Iterator[Notice]:
        assert pools == ORDER.pools
        self.tasks = tasks
        yield from self.notices


@pytest.fixture
def made(tmp_path: pathlib.Path) -> Run:
    """A run as a node has it."""
    return recorded_runs.make_run(Store(tmp_path / "node"), finished=True)


def begun(run: Run, token: str, number: int = 1, where: str = "n1") -> Begun:
    return Begun(number=number, token=token, node=where, device="0", header=run.header())


def delivered(run: Run, token: str, number: int = 1, **changes: object) -> Delivered:
    packed = Packed(
        node="n2",
        device="1",
        header=run.header(),
        events=tuple(run.events()),
        **changes,  # type: ignore[arg-type]
    )
    return Delivered(number=number, token=token, packed=packed)


def answers_of(cluster: Scripted, store: Store) -> list[Answered]:
    return [
        notice
        for notice in ask(ORDER, Answers(price_per_hour=1.0), cluster, store)
        if isinstance(notice, Answered)
    ]


def test_each_pair_of_model_and_kind_is_one_race_with_its_own_device_and_price(
    home: pathlib.Path,
) -> None:
    cluster = Scripted()
    assert answers_of(cluster, Store(home)) == []
    assert [(one.model, one.kind) for one in assign(ORDER)] == [
        ("demo", "H200"),
        ("demo", "cpu"),
        ("other", "H200"),
        ("other", "cpu"),
    ]
    asked = {
        number: (task.answers.model, task.answers.gpu, task.answers.price_per_hour)
        for number, task in cluster.tasks.items()
    }
    assert asked == {
        1: ("demo", "", 3.5),
        2: ("demo", "cpu", 1.0),
        3: ("other", "", 3.5),
        4: ("other", "cpu", 1.0),
    }


def test_the_same_events_decide_the_same_as_on_the_node(home: pathlib.Path, made: Run) -> None:
    told = [Told(number=1, token="a", event=event) for event in made.events()]
    (answered,) = answers_of(Scripted(begun(made, "a"), *told, delivered(made, "a")), Store(home))
    here, there = decide(Store(home).find(answered.attempts[-1].run_id)), decide(made)
    assert here.recommendation == there.recommendation
    assert here.results == there.results
    assert answered.reason is None


def test_what_was_measured_before_a_node_was_lost_stays_and_the_whole_race_is_made_elsewhere(
    home: pathlib.Path, made: Run
) -> None:
    early = [Told(number=1, token="a", event=event) for event in made.events()[:7]]
    cluster = Scripted(
        begun(made, "a"), *early, begun(made, "b", where="n2"), *early[:2], delivered(made, "b")
    )
    (answered,) = answers_of(cluster, Store(home))
    lost, counting = (Store(home).find(attempt.run_id) for attempt in answered.attempts)
    assert [attempt.node for attempt in answered.attempts] == ["n1", "n2"]
    assert lost.events() == made.events()[:7]
    assert counting.events() == made.events()


def test_a_race_that_was_begun_elsewhere_is_not_gone_on_with_here(
    home: pathlib.Path, made: Run, fake_world: Callable[[], Context]
) -> None:
    early = [Told(number=1, token="a", event=event) for event in made.events()[:7]]
    (answered,) = answers_of(
        Scripted(begun(made, "a"), *early, Undone(number=1, reason="it was lost")), Store(home)
    )
    lost = Store(home).find(answered.attempts[0].run_id)
    with pytest.raises(RunOfFleetError) as problem:
        list(execute(lost, fake_world()))
    assert problem.value.next_step == f"p3-advisor fleet {ORDER.fleet_id} --resume"
    with pytest.raises(UnknownRunError):
        Store(home).unfinished()


def test_what_a_lost_attempt_still_says_is_not_mixed_with_the_new_one(
    home: pathlib.Path, made: Run
) -> None:
    late = Told(number=1, token="a", event=made.events()[5])
    cluster = Scripted(
        begun(made, "a"),
        begun(made, "b"),
        late,
        Undone(number=1, reason="the fleet has lost its last H200"),
    )
    (answered,) = answers_of(cluster, Store(home))
    assert answered.reason == "the fleet has lost its last H200"
    assert [Store(home).find(attempt.run_id).events() for attempt in answered.attempts] == [[], []]


def test_what_is_said_after_the_end_is_dropped(home: pathlib.Path, made: Run) -> None:
    late = Told(number=1, token="a", event=made.events()[-1])
    cluster = Scripted(begun(made, "a"), delivered(made, "a"), late, begun(made, "a"))
    (answered,) = answers_of(cluster, Store(home))
    assert len(answered.attempts) == 1
    assert Store(home).find(answered.attempts[0].run_id).events() == made.events()


def test_a_race_whose_beginning_was_never_heard_is_stored_all_the_same(
    home: pathlib.Path, made: Run
) -> None:
    (answered,) = answers_of(Scripted(delivered(made, "a")), Store(home))
    assert Store(home).find(answered.attempts[0].run_id).events() == made.events()
    assert answered.attempts[0].node == "n2"


def test_a_node_that_refuses_is_an_answer_without_a_run(home: pathlib.Path) -> None:
    packed = Packed(
        node="n1",
        device="0",
        reason="node n1 has p3-advisor 0.0, the caller 0.1",
        next_step="install the same version",
    )
    (answered,) = answers_of(Scripted(Delivered(number=2, token="a", packed=packed)), Store(home))
    assert (answered.attempts, answered.reason) == ((), packed.reason)


def test_logs_are_stored_below_the_run_and_nowhere_else(home: pathlib.Path, made: Run) -> None:
    (answered,) = answers_of(
        Scripted(delivered(made, "a", logs={"arms/broken/0/log": b"oh"})), Store(home)
    )
    assert Store(home).find(answered.attempts[0].run_id).log_of("broken", 0).read_bytes() == b"oh"
    with pytest.raises(RunFileError, match="would be written"):
        answers_of(
            Scripted(delivered(made, "a", logs={"../../elsewhere": b"oh"})),
            Store(home.parent / "other"),
        )
    assert not (home.parent / "elsewhere").exists()


def test_a_race_on_a_node_is_that_of_a_machine_of_ones_own(
    fake_world: Callable[[], object],
) -> None:
    told: list[object] = []
    answers = Answers(batch_sizes="2", budget="1", workflows="quick", model="demo")
    task = Task(number=1, kind="cpu", answers=answers)
    packed = node.race(task, "n1", "", told.append, world_at=lambda _: fake_world())  # type: ignore[arg-type,return-value]
    assert packed.reason is None
    assert packed.header == told[0]
    assert list(packed.events) == told[1:]
    assert {name.split("/")[1] for name in packed.logs} >= {"quick", builders.BASELINE}


def test_a_question_that_cannot_be_answered_is_told_as_a_reason(
    fake_world: Callable[[], object],
) -> None:
    task = Task(number=1, kind="cpu", answers=Answers(workflows="nobody-knows-it"))
    packed = node.race(task, "n1", "", lambda _: None, world_at=lambda _: fake_world())  # type: ignore[arg-type,return-value]
    assert "nobody-knows-it" in str(packed.reason)
    assert packed.header is None


def test_a_node_with_another_version_is_refused() -> None:
    packed = node.race(
        Task(number=1, kind="cpu", answers=Answers(), advisor_version="0.0.0"),
        "n1",
        "",
        lambda _: None,
    )
    assert "0.0.0" in str(packed.reason)


def test_two_races_of_one_host_take_turns(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "lock"
    with node.hold_host(file), file.open() as second, pytest.raises(BlockingIOError):
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
