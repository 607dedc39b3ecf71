"""The storage of a fleet's races, driven by a cluster with scripted events."""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import builders
import pytest
import recorded_runs

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.domain.answer import AssignmentResult, FleetRequest, Pool
from advisor.domain.run_state import Header
from advisor.errors import NoRecipeError, OpenFleetError, RunFileError, RunOfFleetError
from advisor.execute.execution import execute
from advisor.fleet import head, node
from advisor.fleet.node import Ended, Task
from advisor.fleet.run_fleet import (
    Progress,
    Started,
    TaskEvent,
    list_assignments,
    run_fleet,
)
from advisor.store.runs import Run
from advisor.store.store import Store

REQUEST = FleetRequest(
    fleet_id="20261121-120000-f1ee",
    created="2026-11-21T12:00:00+00:00",
    models=("demo", "other"),
    pools=(Pool(kind="H200", count=2, price_per_hour=3.5), Pool(kind="cpu", count=1)),
)


class ScriptedCluster:
    """A cluster that yields the given events."""

    def __init__(self, *events: TaskEvent) -> None:
        self.events = events
        self.tasks: Mapping[int, Task] = {}

    def devices(self) -> Mapping[str, int]:
        return {"H200": 2, "cpu": 1}

    def run(self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]) -> Iterator[TaskEvent]:
        assert pools == REQUEST.pools
        self.tasks = tasks
        yield from self.events


@pytest.fixture
def node_run(tmp_path: pathlib.Path) -> Run:
    """A run as a node has stored it."""
    return recorded_runs.make_run(Store(tmp_path / "node"), finished=True)


def started(run: Run, token: str, number: int = 1, node_name: str = "n1") -> Started:
    return Started(number=number, token=token, node=node_name, device="0", header=run.header())


def ended(run: Run, token: str, **changes: Any) -> Ended:
    return Ended(number=1, token=token, events=tuple(run.events()), **changes)


def results_of(cluster: ScriptedCluster, store: Store) -> list[AssignmentResult]:
    return [
        event
        for event in run_fleet(REQUEST, Answers(price_per_hour=1.0), cluster, store)
        if isinstance(event, AssignmentResult)
    ]


@pytest.mark.parametrize(("mode", "is_refused"), [("", True), ("disabled", False)])
def test_a_cluster_without_authentication_is_refused_unless_the_user_allows_it(
    mode: str, *, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    refusal = pytest.raises(OpenFleetError) if is_refused else contextlib.nullcontext()
    with refusal:
        head.refuse_open("10.0.0.5:6379")


def test_each_model_and_kind_of_device_is_one_race_with_its_own_price(
    home: pathlib.Path,
) -> None:
    cluster = ScriptedCluster()
    assert results_of(cluster, Store(home)) == []
    assert [(one.model, one.kind) for one in list_assignments(REQUEST)] == [
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


def test_the_stored_events_give_the_same_decision_as_on_the_node(
    home: pathlib.Path, node_run: Run
) -> None:
    progress = [Progress(number=1, token="a", logged_event=event) for event in node_run.events()]
    (result,) = results_of(
        ScriptedCluster(started(node_run, "a"), *progress, ended(node_run, "a")), Store(home)
    )
    here, there = decide(Store(home).find(result.attempts[-1].run_id)), decide(node_run)
    assert here.recommendation == there.recommendation
    assert here.results == there.results
    assert result.reason is None


def test_a_lost_attempt_is_kept_and_the_race_is_repeated_as_a_new_run(
    home: pathlib.Path, node_run: Run
) -> None:
    early = [Progress(number=1, token="a", logged_event=event) for event in node_run.events()[:7]]
    cluster = ScriptedCluster(
        started(node_run, "a"),
        *early,
        started(node_run, "b", node_name="n2"),
        *early[:2],
        ended(node_run, "b"),
    )
    (result,) = results_of(cluster, Store(home))
    lost, counting = (Store(home).find(attempt.run_id) for attempt in result.attempts)
    assert [attempt.node for attempt in result.attempts] == ["n1", "n2"]
    assert lost.events() == node_run.events()[:7]
    assert counting.events() == node_run.events()


def test_a_run_of_a_fleet_is_not_resumed_as_a_single_run(
    home: pathlib.Path, node_run: Run, fake_context: Callable[[], Context]
) -> None:
    early = [Progress(number=1, token="a", logged_event=event) for event in node_run.events()[:7]]
    (result,) = results_of(
        ScriptedCluster(started(node_run, "a"), *early, Ended(number=1, reason="it was lost")),
        Store(home),
    )
    lost = Store(home).find(result.attempts[0].run_id)
    with pytest.raises(RunOfFleetError) as problem:
        list(execute(lost, fake_context()))
    assert problem.value.next_step == f"p3-advisor fleet {REQUEST.fleet_id} --resume"
    assert list(Store(home).resumable_runs()) == []


def test_a_late_event_of_a_lost_attempt_is_dropped(home: pathlib.Path, node_run: Run) -> None:
    late = Progress(number=1, token="a", logged_event=node_run.events()[5])
    cluster = ScriptedCluster(
        started(node_run, "a"),
        started(node_run, "b"),
        late,
        Ended(number=1, reason="the fleet has lost its last H200"),
    )
    (result,) = results_of(cluster, Store(home))
    assert result.reason == "the fleet has lost its last H200"
    assert [Store(home).find(attempt.run_id).events() for attempt in result.attempts] == [[], []]


def test_events_after_the_end_are_dropped(home: pathlib.Path, node_run: Run) -> None:
    late = Progress(number=1, token="a", logged_event=node_run.events()[-1])
    cluster = ScriptedCluster(
        started(node_run, "a"), ended(node_run, "a"), late, started(node_run, "a")
    )
    (result,) = results_of(cluster, Store(home))
    assert len(result.attempts) == 1
    assert Store(home).find(result.attempts[0].run_id).events() == node_run.events()


def test_a_refused_task_gives_a_result_without_a_run(home: pathlib.Path) -> None:
    reason = "node n1 has p3-advisor 0.0, the caller 0.1"
    (result,) = results_of(ScriptedCluster(Ended(number=2, reason=reason)), Store(home))
    assert (result.attempts, result.reason) == ((), reason)


def test_logs_are_stored_only_below_the_run(home: pathlib.Path, node_run: Run) -> None:
    (result,) = results_of(
        ScriptedCluster(
            started(node_run, "a"), ended(node_run, "a", logs={"arms/broken/0/log": b"oh"})
        ),
        Store(home),
    )
    assert (
        Store(home).find(result.attempts[0].run_id).worker_log_path("broken", 0).read_bytes()
        == b"oh"
    )
    with pytest.raises(RunFileError, match="would be written"):
        results_of(
            ScriptedCluster(
                started(node_run, "a"), ended(node_run, "a", logs={"../../elsewhere": b"oh"})
            ),
            Store(home.parent / "other"),
        )
    assert not (home.parent / "elsewhere").exists()


@pytest.mark.slow
def test_a_race_on_a_node_returns_the_published_events(
    fake_context: Callable[[], Context],
) -> None:
    published: list[object] = []
    composed: list[object] = []

    def compose(*given: object) -> NoReturn:
        composed.append(given)
        raise NoRecipeError("no lines", "none")

    answers = Answers(
        batch_sizes="2",
        budget="1",
        all_arms=True,
        workflows="quick",
        model="demo",
        cold_start=True,
    )
    task = Task(number=1, kind="cpu", answers=answers)
    result = node.run_assignment(
        task,
        "n1",
        "",
        published.append,
        make_context=lambda _: fake_context(),
        compose=compose,
    )
    assert composed, "starts are measured on the node"
    assert result.reason is None
    assert isinstance(published[0], Header)
    assert list(result.events) == published[1:]
    assert {name.split("/")[1] for name in result.logs} >= {"quick", builders.BASELINE}


def test_a_user_error_on_a_node_becomes_the_reason_of_the_result(
    fake_context: Callable[[], Context],
) -> None:
    task = Task(number=1, kind="cpu", answers=Answers(workflows="nobody-knows-it"))
    result = node.run_assignment(
        task, "n1", "", lambda _: None, make_context=lambda _: fake_context()
    )
    assert "nobody-knows-it" in str(result.reason)
    assert result.events == ()


def test_a_node_with_another_version_refuses_the_task() -> None:
    result = node.run_assignment(
        Task(number=1, kind="cpu", answers=Answers(), advisor_version="0.0.0"),
        "n1",
        "",
        lambda _: None,
    )
    assert "0.0.0" in str(result.reason)


def test_the_host_lock_excludes_a_second_race(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "lock"
    with node.lock_host(file), file.open() as second, pytest.raises(BlockingIOError):
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
