"""The runs of a fleet, driven by a cluster with scripted results, and the choice of devices."""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

import builders
import pytest
import recorded_runs

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.domain.answer import Fleet, FleetCell, Pool
from advisor.errors import (
    FleetRequestError,
    NoRecipeError,
    OpenFleetError,
    RunOfFleetError,
)
from advisor.execute.execution import execute
from advisor.fleet import head
from advisor.fleet.run_fleet import (
    Ended,
    Task,
    choose_pools,
    list_cells,
    lock_host,
    missing_tasks,
    parse_models,
    parse_pool,
    run_assignment,
    run_fleet,
)
from advisor.store.runs import Run
from advisor.store.store import Store

POOLS = (Pool(kind="H200", count=2, price_per_hour=3.5), Pool(kind="cpu", count=1))
FLEET = Fleet(
    fleet_id="20261121-120000-f1ee",
    created="2026-11-21T12:00:00+00:00",
    models=("demo", "other"),
    pools=POOLS,
    cells=list_cells(("demo", "other"), POOLS),
)
ANSWERS = Answers(price_per_hour=1.0)


class ScriptedCluster:
    """A cluster whose tasks end in the given way."""

    def __init__(self, *ends: Ended) -> None:
        self.ends = ends

    def devices(self) -> Mapping[str, int]:
        return {"H200": 2, "cpu": 1}

    def run(self, tasks: Sequence[Task], pools: Sequence[Pool]) -> Iterator[Ended]:
        assert {task.kind for task in tasks} == {pool.kind for pool in pools}
        yield from self.ends


@pytest.fixture
def node_run(tmp_path: pathlib.Path) -> Run:
    """A run as a node has stored it."""
    return recorded_runs.make_run(Store(tmp_path / "node"), finished=True)


def end_of(run: Run, *, events: int | None = None, reason: str | None = None) -> Ended:
    """Return the end of the first task, with so many events of a run."""
    return Ended(
        number=0,
        node="n2",
        device="0",
        attempts=2,
        header=run.header(),
        events=tuple(run.events()[:events]),
        reason=reason,
    )


def run_all(ended: Ended, store: Store, fleet: Fleet = FLEET) -> tuple[Fleet, FleetCell]:
    ((stored, cell),) = run_fleet(
        fleet, missing_tasks(fleet, ANSWERS), ScriptedCluster(ended), store
    )
    assert store.fleets.find("latest") == stored
    return stored, cell


@pytest.mark.parametrize(("mode", "is_refused"), [("", True), ("disabled", False)])
def test_a_cluster_without_authentication_is_refused_unless_the_user_allows_it(
    mode: str, *, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    refusal = pytest.raises(OpenFleetError) if is_refused else contextlib.nullcontext()
    with refusal:
        head.refuse_open("10.0.0.5:6379")


def test_each_model_and_kind_of_device_is_one_race_with_its_own_price() -> None:
    asked = {
        task.number: (task.kind, task.answers.model, task.answers.gpu, task.answers.price_per_hour)
        for task in missing_tasks(FLEET, ANSWERS)
    }
    assert asked == {
        0: ("H200", "demo", "", 3.5),
        1: ("cpu", "demo", "cpu", 1.0),
        2: ("H200", "other", "", 3.5),
        3: ("cpu", "other", "cpu", 1.0),
    }


def test_the_stored_run_gives_the_same_decision_as_on_the_node(
    home: pathlib.Path, node_run: Run
) -> None:
    fleet, cell = run_all(end_of(node_run), Store(home))
    here, there = decide(Store(home).find(str(cell.run_id))), decide(node_run)
    assert here.recommendation == there.recommendation
    assert here.results == there.results
    assert (cell.node, cell.attempts, cell.reason) == ("n2", 2, None)
    assert [task.number for task in missing_tasks(fleet, ANSWERS)] == [1, 2, 3]


def test_a_run_that_failed_is_kept_and_measured_again_as_a_new_one(
    home: pathlib.Path, node_run: Run, fake_context: Callable[[], Context]
) -> None:
    fleet, failed = run_all(end_of(node_run, events=7, reason="the disk is full"), Store(home))
    assert (failed.run_id, failed.reason) == (f"{FLEET.fleet_id}-0001-1", "the disk is full")
    kept = Store(home).find(str(failed.run_id))
    assert kept.events() == node_run.events()[:7]
    with pytest.raises(RunOfFleetError) as problem:
        list(execute(kept, fake_context()))
    assert problem.value.next_step == f"p3-advisor fleet {FLEET.fleet_id} --resume"
    assert list(Store(home).resumable_runs()) == []
    _, again = run_all(end_of(node_run), Store(home), fleet)
    assert (again.run_id, again.reason) == (f"{FLEET.fleet_id}-0001-2", None)
    assert kept.events() == node_run.events()[:7]


def test_a_refused_task_gives_a_cell_without_a_run(home: pathlib.Path) -> None:
    reason = "node n1 has p3-advisor 0.0, the caller 0.1"
    fleet, cell = run_all(Ended(number=1, reason=reason), Store(home))
    assert (cell.model, cell.kind, cell.run_id, cell.reason) == ("demo", "cpu", None, reason)
    assert len(missing_tasks(fleet, ANSWERS)) == len(FLEET.cells)


@pytest.mark.slow
def test_a_race_on_a_node_returns_its_run(fake_context: Callable[[], Context]) -> None:
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
    context = fake_context()
    ended = run_assignment(
        Task(number=1, kind="cpu", answers=answers),
        "n1",
        "",
        make_context=lambda _: context,
        compose=compose,
    )
    assert composed, "starts are measured on the node"
    assert (ended.reason, ended.node, ended.device) == (None, "n1", "cpu")
    stored = context.store.find("latest")
    assert (ended.header, list(ended.events)) == (stored.header(), stored.events())
    assert builders.BASELINE in stored.state().processes


def test_a_user_error_on_a_node_becomes_the_reason(fake_context: Callable[[], Context]) -> None:
    task = Task(number=1, kind="cpu", answers=Answers(workflows="nobody-knows-it"))
    ended = run_assignment(task, "n1", "", make_context=lambda _: fake_context())
    assert "nobody-knows-it" in str(ended.reason)
    assert (ended.header, ended.events) == (None, ())


def test_a_node_with_another_version_refuses_the_task() -> None:
    task = Task(number=1, kind="cpu", answers=Answers(), advisor_version="0.0.0")
    assert "0.0.0" in str(run_assignment(task, "n1", "").reason)


def test_the_host_lock_excludes_a_second_race(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "lock"
    with lock_host(file), file.open() as second, pytest.raises(BlockingIOError):
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)


DEVICES = {"H200": 4, "L40S": 2, "cpu": 3}


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        ("gpu=H200", Pool(kind="H200")),
        ("gpu=H200,count=2", Pool(kind="H200", count=2)),
        (" gpu = L40S , price = 1.20 ".replace(" = ", "="), Pool(kind="L40S", price_per_hour=1.2)),
        ("cpu", Pool(kind="cpu")),
        ("cpu,count=2,price=0", Pool(kind="cpu", count=2, price_per_hour=0.0)),
    ],
)
def test_a_pool_is_parsed(text: str, pool: Pool) -> None:
    assert parse_pool(text) == pool


@pytest.mark.parametrize(
    "text",
    [
        "",
        "count=2",
        "gpu=",
        "gpu=H200,colour=red",
        "gpu=H200,count=0",
        "gpu=H200,count=two",
        "cpu,price=-1",
        "cpu,price=nan",
    ],
)
def test_an_invalid_pool_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(FleetRequestError) as refused:
        parse_pool(text)
    assert "--on" in refused.value.next_step


def test_duplicate_models_are_dropped_and_the_default_is_the_model_option() -> None:
    assert parse_models("a, b,,a", "demo") == ("a", "b")
    assert parse_models("", "demo") == ("demo",)


def test_the_default_is_every_kind_of_accelerator_or_the_cpus() -> None:
    assert [(pool.kind, pool.count) for pool in choose_pools([], DEVICES, {})] == [
        ("H200", 4),
        ("L40S", 2),
    ]
    assert [(pool.kind, pool.count) for pool in choose_pools([], {"cpu": 3}, {})] == [("cpu", 3)]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([Pool(kind="A100")], "the fleet has 0 x A100"),
        ([Pool(kind="L40S", count=3)], "the fleet has 2 x L40S, 3 requested"),
        ([Pool(kind="cpu"), Pool(kind="cpu", count=1)], "name the same kind"),
    ],
)
def test_a_request_for_missing_devices_is_rejected(asked: list[Pool], words: str) -> None:
    with pytest.raises(FleetRequestError, match=words):
        choose_pools(asked, DEVICES, {})


def test_a_price_on_the_command_line_overrides_the_settings() -> None:
    asked = (Pool(kind="H200"), Pool(kind="L40S", price_per_hour=1.0), Pool(kind="cpu"))
    chosen = choose_pools(asked, DEVICES, {"H200": 3.5, "L40S": 9.0})
    assert [pool.price_per_hour for pool in chosen] == [3.5, 1.0, None]
