"""Races on a real Ray cluster with several nodes on this machine, some of which are lost."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.domain.answer import AssignmentResult, FleetRequest, Pool
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import Header
from advisor.errors import FleetUnreachableError
from advisor.fleet import node
from advisor.fleet.head import is_reachable
from advisor.fleet.node import Ended, Publish, Task
from advisor.fleet.run_fleet import ClusterEvent, Progress, run_fleet
from advisor.store.store import Store

ray = pytest.importorskip("ray", reason="a cluster needs Ray: the extra `fleet`")
ray_cluster = pytest.importorskip("ray.cluster_utils")

from advisor.fleet.cluster import RayCluster  # noqa: E402 - needs Ray

pytestmark = pytest.mark.long

ANSWERS = Answers(batch_sizes="2", budget="1", all_arms=True, workflows="quick")
SMALL = 80 << 20
PATIENCE_SECONDS = 60


def context_with(probes: pathlib.Path, rubric: pathlib.Path, home: pathlib.Path) -> Context:
    return Context(environment=dict(os.environ), store=Store(home), probes=probes, rubric=rubric)


def lose_the_first(
    marks: pathlib.Path,
    driver: str,
    run_assignment: Callable[..., Ended],
    task: Task,
    name: str,
    gpu: str,
    publish: Publish,
) -> Ended:
    """Run a race, except that the first attempt on another node than the driver's hangs.

    The hanging attempt writes its node to the file `lost`, and creates `published` when it hangs.
    """
    here = ray.get_runtime_context().get_node_id()
    try:
        if here != driver:
            (marks / "lost").open("x").write(here)
    except FileExistsError:
        return run_assignment(task, name, gpu, publish)

    def publish_and_hang(event: Header | LoggedEvent) -> None:
        publish(event)
        if isinstance(event, LoggedEvent) and event.seq > 3:
            (marks / "published").touch()
            time.sleep(600)

    return run_assignment(task, name, gpu, publish if here == driver else publish_and_hang)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without processors, a node with one processor, and a node that claims two GPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
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
        # The nodes cannot import this module, so its functions are pickled by value.
        module = sys.modules[__name__]
        ray.cloudpickle.register_pickle_by_value(module)
        yield made
        ray.cloudpickle.unregister_pickle_by_value(module)
        made.shutdown()


def request(*models: str, kind: str = "cpu") -> FleetRequest:
    return FleetRequest(
        fleet_id="20261121-120000-f1ee",
        created="2026",
        models=models,
        pools=(Pool(kind=kind, count=2),),
    )


def worker_commands(probes: pathlib.Path) -> list[list[str]]:
    """Return the commands of the processes that run code from this directory."""
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [
        command for command in commands if any(part.startswith(str(probes)) for part in command)
    ]


def results_by_model(events: list[ClusterEvent]) -> dict[str, AssignmentResult]:
    return {
        event.assignment.model: event for event in events if isinstance(event, AssignmentResult)
    }


def test_a_cancelled_fleet_leaves_no_process(
    cluster: Any,
    fake_probes: pathlib.Path,
    fake_rubric: pathlib.Path,
    home: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    probes = shutil.copytree(fake_probes, tmp_path / "probes")
    race = functools.partial(
        node.run_assignment, make_context=functools.partial(context_with, probes, fake_rubric)
    )
    joined = RayCluster(cluster.address, race)
    events = run_fleet(request("demo"), ANSWERS, joined, Store(home))
    try:
        assert any(isinstance(event, Progress) and worker_commands(probes) for event in events)
    finally:
        events.close()  # type: ignore[attr-defined]
        joined.close()
    end = time.monotonic() + PATIENCE_SECONDS
    while worker_commands(probes) and time.monotonic() < end:
        time.sleep(0.1)
    assert worker_commands(probes) == []


def test_a_race_whose_node_dies_is_repeated_on_another_node(
    cluster: Any,
    fake_probes: pathlib.Path,
    fake_rubric: pathlib.Path,
    home: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    race = functools.partial(
        node.run_assignment, make_context=functools.partial(context_with, fake_probes, fake_rubric)
    )
    joined = RayCluster(cluster.address)
    driver = ray.get_runtime_context().get_node_id()
    joined._run_assignment = functools.partial(lose_the_first, tmp_path, driver, race)
    events = []
    try:
        assert joined.devices() == {"cpu": 2, "H200": 2}
        for event in run_fleet(
            request("demo", "synthetic/ffn@64x128"), ANSWERS, joined, Store(home)
        ):
            events.append(event)
            if (tmp_path / "published").exists() and cluster.workers:
                dead = (tmp_path / "lost").read_text()
                cluster.remove_node(
                    next(worker for worker in cluster.workers if worker.node_id == dead),
                    allow_graceful=False,
                )
                cluster.workers.clear()
    finally:
        joined.close()
    results = results_by_model(events)
    assert set(results) == {"demo", "synthetic/ffn@64x128"}
    (first,) = [one for one in results.values() if len(one.attempts) == 2]
    assert first.reason is None
    lost, whole = (Store(home).find(attempt.run_id) for attempt in first.attempts)
    assert 3 < len(lost.events()) < len(whole.events())
    assert decide(whole).recommendation is not None


#: Starts a local cluster, prints its addresses, and then whether everyone may join it.
LOCAL_CLUSTER = """
import os, sys
import psutil
from advisor.fleet import head
if "token" in sys.argv:
    head.protect_local(os.environ)
from advisor.fleet.cluster import RayCluster, ray
cluster = RayCluster("local")
for process in psutil.Process().children(recursive=True):
    for each in process.net_connections():
        if each.status == "LISTEN":
            print(each.laddr.ip.removeprefix("::ffff:"))
os.environ["RAY_AUTH_MODE"] = "token"
try:
    head.refuse_open(ray.get_runtime_context().gcs_address)
except head.OpenFleetError:
    print("open")
cluster.close()
"""


@pytest.mark.parametrize(("words", "is_open"), [(["token"], False), ([], True)])
def test_a_local_cluster_listens_to_this_machine_and_needs_a_token(
    words: list[str], *, is_open: bool
) -> None:
    started = subprocess.run(
        [sys.executable, "-c", LOCAL_CLUSTER, *words], capture_output=True, text=True, check=True
    )
    found = set(started.stdout.split())
    assert (found == {"127.0.0.1"}, "open" in found) == (not is_open, is_open)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_unreachable_address_is_an_error(address: str) -> None:
    with pytest.raises(FleetUnreachableError, match="no Ray cluster answers"):
        RayCluster(address)


def test_a_head_that_is_gone_is_not_reachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert is_reachable(address)
    assert not is_reachable(address)
    assert is_reachable("local")
