"""A real Ray cluster of several nodes on this machine: races are placed, told of, retried when their node dies, and given up in the end."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil
import pytest
import recorded_runs

from advisor.context import Context
from advisor.domain.fleet import Answered, Contention, Order, Pool
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent
from advisor.errors import FleetUnreachableError
from advisor.fleet import News, Told, ask, node
from advisor.fleet.node import Packed, Task
from advisor.pipeline.decision import decide
from advisor.question.answers import Answers
from advisor.store import Run, Store

ray = pytest.importorskip("ray", reason="a cluster needs Ray: the extra `fleet`")
ray_cluster = pytest.importorskip("ray.cluster_utils")

from advisor.fleet.cluster import RESTART_SECONDS, Head, RayCluster  # noqa: E402 - needs Ray

pytestmark = pytest.mark.long

ANSWERS = Answers(batch_sizes="2", budget="1", workflows="quick")
SMALL = 80 << 20
PATIENCE_SECONDS = 60
Tell = Callable[[Header | LoggedEvent], None]


def world_of(probes: pathlib.Path, rubric: pathlib.Path, home: pathlib.Path) -> Context:
    return Context(environment=dict(os.environ), store=Store(home), probes=probes, rubric=rubric)


def lose_the_first(
    marks: pathlib.Path,
    driver: str,
    race: Callable[..., Packed],
    task: Task,
    name: str,
    gpu: str,
    tell: Tell,
) -> Packed:
    """Race like any other, but the first attempt on another node than the driver's says where it runs and goes no further."""
    here = ray.get_runtime_context().get_node_id()
    try:
        if here != driver:
            (marks / "lost").open("x").write(here)
    except FileExistsError:
        return race(task, name, gpu, tell)

    def tell_and_stop(said: Header | LoggedEvent) -> None:
        tell(said)
        if isinstance(said, LoggedEvent) and said.seq > 3:
            (marks / "told").touch()
            time.sleep(600)

    return race(task, name, gpu, tell if here == driver else tell_and_stop)


def replay(
    header: Header, events: tuple[LoggedEvent, ...], task: Task, name: str, gpu: str, tell: Tell
) -> Packed:
    """Tell what was recorded once, as if it were measured now."""
    tell(header)
    for event in events:
        tell(event)
    return Packed(node=name, device=gpu or task.kind, header=header, events=events)


def say_where(task: Task, name: str, gpu: str, tell: Tell) -> Packed:
    """Measure nothing; the reason says what the task knew of its node."""
    del tell
    return Packed(
        node=name, device=gpu, reason="side by side" if name in task.beside else "in turn"
    )


def find(noticed: str, task: Task, name: str, gpus: Sequence[str]) -> Contention:
    """Stand for the check, of which one model notices its neighbour."""
    return Contention(
        node=name,
        kind=task.kind,
        model=task.answers.model,
        free=task.answers.model != noticed,
        words=",".join(gpus),
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes that can take races, the second of which has two GPUs by its own account, and a head that takes none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_agent_register_timeout_ms", "120000")
        made = ray_cluster.Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "include_dashboard": False,
                "object_store_memory": SMALL,
            },
        )
        gpus = {"num_gpus": 2, "resources": {"accelerator_type:H200": 1}}
        made.workers = [
            made.add_node(num_cpus=1, object_store_memory=SMALL),
            made.add_node(num_cpus=2, object_store_memory=SMALL, **gpus),
        ]
        # What is defined here is unknown on the nodes, and is sent along.
        module = sys.modules[__name__]
        ray.cloudpickle.register_pickle_by_value(module)
        yield made
        ray.cloudpickle.unregister_pickle_by_value(module)
        made.shutdown()


@pytest.fixture
def recorded(tmp_path: pathlib.Path) -> Run:
    return recorded_runs.make_run(Store(tmp_path / "single"), finished=True)


def order(*models: str, kind: str = "cpu") -> Order:
    return Order(
        fleet_id="20261121-120000-f1ee",
        created="2026",
        models=models,
        pools=(Pool(kind=kind, count=2),),
    )


def workers_from(probes: pathlib.Path) -> list[list[str]]:
    """Return the commands of the processes that run code from this directory."""
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [
        command for command in commands if any(part.startswith(str(probes)) for part in command)
    ]


def all_said(cluster: Any, asked: Order, store: Store, *own: Callable[..., Any]) -> list[News]:
    joined = RayCluster(cluster.address, *own)
    try:
        return list(ask(asked, ANSWERS, joined, store))
    finally:
        joined.close()


def answers_among(said: list[News]) -> dict[str, Answered]:
    return {notice.assignment.model: notice for notice in said if isinstance(notice, Answered)}


def test_the_answer_of_a_fleet_is_that_of_a_single_machine_from_the_same_figures(
    cluster: Any, recorded: Run, home: pathlib.Path
) -> None:
    work = functools.partial(replay, recorded.header(), tuple(recorded.events()))
    answered = answers_among(all_said(cluster, order("demo", "other", "third"), Store(home), work))
    assert set(answered) == {"demo", "other", "third"}
    alone = decide(recorded)
    for one in answered.values():
        there = decide(Store(home).find(one.attempts[-1].run_id))
        assert (there.recommendation, there.results) == (alone.recommendation, alone.results)


@pytest.mark.parametrize(("noticed", "words"), [("nobody", "side by side"), ("other", "in turn")])
def test_races_share_a_host_with_several_gpus_only_where_every_model_was_checked(
    cluster: Any, home: pathlib.Path, noticed: str, words: str
) -> None:
    said = all_said(
        cluster,
        order("demo", "other", kind="H200"),
        Store(home),
        say_where,
        functools.partial(find, noticed),
    )
    contentions = [notice for notice in said if isinstance(notice, Contention)]
    assert {(one.model, one.words) for one in contentions} == {("demo", "0,1"), ("other", "0,1")}
    assert {answered.reason for answered in answers_among(said).values()} == {words}


def test_a_fleet_that_is_cancelled_leaves_no_process(
    cluster: Any,
    fake_probes: pathlib.Path,
    fake_rubric: pathlib.Path,
    home: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    probes = shutil.copytree(fake_probes, tmp_path / "probes")
    race = functools.partial(node.race, world_at=functools.partial(world_of, probes, fake_rubric))
    joined = RayCluster(cluster.address, race)
    said = ask(order("demo"), ANSWERS, joined, Store(home))
    try:
        assert any(isinstance(notice, Told) and workers_from(probes) for notice in said)
    finally:
        said.close()  # type: ignore[attr-defined]
        joined.close()
    end = time.monotonic() + PATIENCE_SECONDS
    while workers_from(probes) and time.monotonic() < end:
        time.sleep(0.1)
    assert workers_from(probes) == []


def test_races_are_made_on_the_nodes_and_one_whose_node_dies_is_made_again_elsewhere(
    cluster: Any,
    fake_probes: pathlib.Path,
    fake_rubric: pathlib.Path,
    home: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    race = functools.partial(
        node.race, world_at=functools.partial(world_of, fake_probes, fake_rubric)
    )
    joined = RayCluster(cluster.address)
    driver = ray.get_runtime_context().get_node_id()
    joined._work = functools.partial(lose_the_first, tmp_path, driver, race)
    said = []
    try:
        assert joined.devices() == {"cpu": 2, "H200": 2}
        for notice in ask(order("demo", "synthetic/ffn@64x128"), ANSWERS, joined, Store(home)):
            said.append(notice)
            if (tmp_path / "told").exists() and cluster.workers:
                dead = (tmp_path / "lost").read_text()
                cluster.remove_node(
                    next(worker for worker in cluster.workers if worker.node_id == dead),
                    allow_graceful=False,
                )
                cluster.workers.clear()
    finally:
        joined.close()
    answered = answers_among(said)
    assert set(answered) == {"demo", "synthetic/ffn@64x128"}
    (first,) = [one for one in answered.values() if len(one.attempts) == 2]
    assert first.reason is None
    lost, whole = (Store(home).find(attempt.run_id) for attempt in first.attempts)
    assert 3 < len(lost.events()) < len(whole.events())
    assert decide(whole).recommendation is not None


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_nobody_answers(address: str) -> None:
    with pytest.raises(FleetUnreachableError, match="no Ray cluster answers"):
        RayCluster(address)


def test_a_head_that_restarts_is_waited_for_and_one_that_stays_away_is_told() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            socket.create_server(("127.0.0.1", port)).detach()

    head = Head(f"127.0.0.1:{port}", clock=lambda: 10.0 * (1 + sum(slept)), sleep=sleep)
    head.wait()
    listener.close()
    slept.append(1.0)
    head.wait()
    assert len(slept) == 3, "it was back after two looks"

    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    now = iter(range(0, 10 * RESTART_SECONDS, 5))
    head = Head(f"127.0.0.1:{port}", clock=lambda: float(next(now)), sleep=lambda _: None)
    with pytest.raises(FleetUnreachableError, match="what was answered and measured is kept"):
        head.wait()
    assert Head("local").answers()
