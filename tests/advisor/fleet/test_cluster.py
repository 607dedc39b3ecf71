"""A real Ray cluster of several nodes on this machine: races are placed, told of, retried when their node dies, and given up in the end."""

from __future__ import annotations

import functools
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from advisor import pipeline
from advisor.domain.events import Event
from advisor.domain.fleet import Answered, Order, Pool
from advisor.domain.run import Header
from advisor.errors import FleetUnreachableError
from advisor.fleet import ask, node
from advisor.fleet.node import Packed, Task
from advisor.question.answers import Answers
from advisor.store import Store
from advisor.world import World

ray = pytest.importorskip("ray")
ray_cluster = pytest.importorskip("ray.cluster_utils")

from advisor.fleet.cluster import RayCluster  # noqa: E402 - needs Ray

ANSWERS = Answers(batch_sizes="2", budget="1", workflows="quick")
Tell = Callable[[Header | Event], None]


def world_of(probes: pathlib.Path, rubric: pathlib.Path, home: pathlib.Path) -> World:
    return World(environment=dict(os.environ), store=Store(home), probes=probes, rubric=rubric)


def lose_the_first(marks: pathlib.Path, race: Callable[..., Packed], task: Task, name: str, gpu: str, tell: Tell) -> Packed:
    """Race like any other, but the first attempt at the first task says where it runs and goes no further."""
    try:
        (marks / f"first-{task.number}").open("x").write(ray.get_runtime_context().get_node_id())
    except FileExistsError:
        return race(task, name, gpu, tell)

    def tell_and_stop(said: Header | Event) -> None:
        tell(said)
        if isinstance(said, Event) and said.seq > 3:
            (marks / "told").touch()
            time.sleep(600)

    return race(task, name, gpu, tell_and_stop if task.number == 1 else tell)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes that can take one race each, and a head that takes none."""
    made = ray_cluster.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.workers = [made.add_node(num_cpus=1), made.add_node(num_cpus=1)]
    yield made
    made.shutdown()


@pytest.fixture
def race(fake_probes: pathlib.Path, fake_rubric: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Packed]]:
    """A race of pretend workflows, as the nodes can unpack it."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    module = sys.modules[__name__]
    ray.cloudpickle.register_pickle_by_value(module)
    yield functools.partial(node.race, world_at=functools.partial(world_of, fake_probes, fake_rubric))
    ray.cloudpickle.unregister_pickle_by_value(module)


def order(*models: str, count: int = 2) -> Order:
    return Order(fleet_id="20261121-120000-f1ee", created="2026", models=models, pools=(Pool(kind="cpu", count=count),))


def test_races_are_made_on_the_nodes_and_one_whose_node_dies_is_made_again_elsewhere(
    cluster: Any, race: Callable[..., Packed], home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    joined = RayCluster(cluster.address, functools.partial(lose_the_first, tmp_path, race))
    try:
        assert joined.devices() == {"cpu": 2}
        answered = []
        for notice in ask(order("demo", "synthetic/ffn@64x128"), ANSWERS, joined, Store(home)):
            if isinstance(notice, Answered):
                answered.append(notice)
            if (tmp_path / "told").exists() and cluster.workers:
                dead = (tmp_path / "first-1").read_text()
                cluster.remove_node(next(worker for worker in cluster.workers if worker.node_id == dead), allow_graceful=False)
                cluster.workers.clear()
    finally:
        joined.close()
    by_model = {one.assignment.model: one for one in answered}
    assert set(by_model) == {"demo", "synthetic/ffn@64x128"}
    first = by_model["demo"]
    assert first.reason is None
    assert len(first.attempts) == 2
    lost, whole = (Store(home).find(attempt.run_id) for attempt in first.attempts)
    assert 3 < len(lost.events()) < len(whole.events())
    assert pipeline.decide(whole).recommendation is not None


def test_nobody_answers() -> None:
    with pytest.raises(FleetUnreachableError, match="no Ray cluster answers"):
        RayCluster("127.0.0.1:1")
