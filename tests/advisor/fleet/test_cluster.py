"""Races on a real Ray cluster with several nodes on this machine, some of which are lost."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import psutil
import pytest

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.domain.answer import Pool
from advisor.errors import FleetUnreachableError
from advisor.fleet import run_fleet
from advisor.fleet.head import is_reachable
from advisor.fleet.run_fleet import Ended, Task
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
) -> Ended:
    """Run a race, except that the first attempt on another node than the driver's hangs.

    The hanging attempt writes its node to the file `lost`.
    """
    here = ray.get_runtime_context().get_node_id()
    try:
        if here != driver:
            (marks / "lost").open("x").write(here)
            time.sleep(600)
    except FileExistsError:
        pass
    return run_assignment(task, name, gpu)


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


def tasks_of(*models: str) -> list[Task]:
    return [
        Task(
            number=number,
            kind="cpu",
            answers=msgspec.structs.replace(ANSWERS, model=model, gpu="cpu"),
        )
        for number, model in enumerate(models)
    ]


def worker_commands(probes: pathlib.Path) -> list[list[str]]:
    """Return the commands of the processes that run code from this directory."""
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [
        command for command in commands if any(part.startswith(str(probes)) for part in command)
    ]


@pytest.fixture
def race(
    fake_probes: pathlib.Path, fake_rubric: pathlib.Path, tmp_path: pathlib.Path
) -> Callable[..., Ended]:
    """Execute a task with workers whose code is in `tmp_path`."""
    probes = shutil.copytree(fake_probes, tmp_path / "probes")
    return functools.partial(
        run_fleet.run_assignment, make_context=functools.partial(context_with, probes, fake_rubric)
    )


def wait_for(is_true: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_true() and time.monotonic() < end:
        time.sleep(0.1)
    return is_true()


def interrupt_when(is_true: Callable[[], bool]) -> threading.Thread:
    """Interrupt the main thread, as Ctrl-C does, as soon as this holds."""

    def interrupt() -> None:
        if wait_for(is_true):
            signal.raise_signal(signal.SIGINT)

    return threading.Thread(target=interrupt)


def test_a_cancelled_fleet_leaves_no_process(
    cluster: Any, race: Callable[..., Ended], tmp_path: pathlib.Path
) -> None:
    joined = RayCluster(cluster.address, race)
    interruption = interrupt_when(lambda: bool(worker_commands(tmp_path)))
    interruption.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            list(joined.run(tasks_of("demo"), [Pool(kind="cpu", count=2)]))
    finally:
        interruption.join()
        joined.close()
    assert wait_for(lambda: not worker_commands(tmp_path))


def test_a_race_whose_node_dies_is_repeated_on_another_node(
    cluster: Any, race: Callable[..., Ended], tmp_path: pathlib.Path, home: pathlib.Path
) -> None:
    joined = RayCluster(cluster.address)
    driver = ray.get_runtime_context().get_node_id()
    joined._run_assignment = functools.partial(lose_the_first, tmp_path, driver, race)

    def kill_the_first() -> None:
        lost = tmp_path / "lost"
        assert wait_for(lambda: lost.exists() and lost.read_text() != "")
        dead = lost.read_text()
        victim = next(worker for worker in cluster.workers if worker.node_id == dead)
        cluster.remove_node(victim, allow_graceful=False)

    killer = threading.Thread(target=kill_the_first)
    try:
        assert joined.devices() == {"cpu": 2, "H200": 2}
        killer.start()
        pools = [Pool(kind="cpu", count=2)]
        ended = list(joined.run(tasks_of("demo", "synthetic/ffn@64x128"), pools))
    finally:
        killer.join()
        joined.close()
    assert sorted((each.attempts, each.reason) for each in ended) == [(1, None), (2, None)]
    for each in ended:
        assert each.header is not None
        run = Store(home).create(each.header)
        with run.writer() as writer:
            for event in each.events:
                writer.append(event)
        assert decide(run).recommendation is not None


def test_a_race_on_a_kind_that_no_node_has_is_given_up(
    cluster: Any, race: Callable[..., Ended]
) -> None:
    joined = RayCluster(cluster.address, race)
    try:
        task = Task(number=0, kind="L40S", answers=ANSWERS)
        (ended,) = joined.run([task], [Pool(kind="L40S", count=1)])
    finally:
        joined.close()
    assert (ended.header, "L40S" in str(ended.reason)) == (None, True)


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
