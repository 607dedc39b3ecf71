"""Place the runs of a fleet on a Ray cluster, and retry lost ones.

No other module imports Ray.
"""

from __future__ import annotations

import collections
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import ray

from advisor.domain.answer import CPU, Pool
from advisor.domain.wire import decode_event
from advisor.fleet.head import (
    LOCAL,
    check_address,
    connection_lost,
    is_reachable,
    refuse_open,
    unreachable,
)
from advisor.fleet.run_fleet import Ended, Task, run_assignment

#: Prefix of the resource with which Ray names the kind of a node's GPUs.
ACCELERATOR = "accelerator_type:"
#: Retries of a run that lost its node. It then fails, because the run itself may be the cause.
RETRIES = 3
#: Between two looks at the nodes; a task that ends is noticed at once.
POLL_SECONDS = 1.0
#: The object store holds finished runs only, which are small. Ray's default is a third of the
#: memory.
OBJECT_STORE_BYTES = 256 << 20
#: Leading digits of a node's id that identify it to the user.
NODE_DIGITS = 8

RunAssignment = Callable[[Task, str, str], Ended]


@ray.remote(max_retries=0)
def run_task(task: bytes, run_assignment: RunAssignment) -> bytes:
    """Run one task on the device where Ray has placed it."""
    node = str(ray.get_runtime_context().get_node_id()[:NODE_DIGITS])
    gpu = next((str(number) for number in ray.get_gpu_ids()), "")
    return msgspec.msgpack.encode(
        run_assignment(msgspec.msgpack.decode(task, type=Task), node, gpu)
    )


class RayCluster:
    """A Ray cluster, joined as a driver; the address `local` starts one on this machine."""

    def __init__(
        self,
        address: str,
        run_assignment: RunAssignment = run_assignment,
        **ray_options: object,
    ) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        if address == LOCAL:
            # Ray lowers the priority of its workers by default, which would slow measurements down.
            os.environ.setdefault("RAY_worker_niceness", "0")
            ray_options = {
                "address": LOCAL,  # by default Ray joins a cluster that runs here already
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE_BYTES,
                **ray_options,
            }
        else:
            check_address(address)
            refuse_open(address)
            ray_options = {"address": address}
        try:
            # The output of the workers is stored with their runs, so the driver need not log it.
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **ray_options)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as problem:
            raise unreachable(address, problem) from problem
        self._address = address
        self._run_assignment = run_assignment

    def close(self) -> None:
        """Leave the cluster; a local one ends."""
        if is_reachable(self._address):
            ray.shutdown()

    def devices(self) -> Mapping[str, int]:
        """Return the number of devices of each kind on live nodes."""
        counts: collections.Counter[str] = collections.Counter()
        for resources in _live_nodes():
            kinds = [
                name.removeprefix(ACCELERATOR) for name in resources if name.startswith(ACCELERATOR)
            ]
            for kind in kinds:
                counts[kind] += int(resources.get("GPU", 0))
            counts[CPU] += resources.get("CPU", 0) >= 1
        return {kind: count for kind, count in counts.items() if count}

    def run(self, tasks: Sequence[Task], pools: Sequence[Pool]) -> Iterator[Ended]:
        """Run every task on a device of its kind, and again if it is lost with its node.

        No more tasks run at a time than the pool of their kind has devices.
        """
        waiting, running = list(tasks), dict[Any, Task]()
        attempts = collections.Counter[int]()
        try:
            while waiting or running:
                # Ray ends a process that has tried to reach its head for a minute.
                if not is_reachable(self._address):
                    raise connection_lost(f"the head node at {self._address!r}")
                devices = self.devices()
                # They would wait for ever.
                self._cancel(each for each, task in running.items() if task.kind not in devices)
                for task in [each for each in waiting if each.kind not in devices]:
                    waiting.remove(task)
                    reason = f"no live node has a device of kind {task.kind}"
                    yield Ended(number=task.number, reason=reason)
                for task in _startable(waiting, running.values(), pools):
                    waiting.remove(task)
                    attempts[task.number] += 1
                    running[self._start(task)] = task
                done, _ = ray.wait(list(running), timeout=POLL_SECONDS) if running else ([], [])
                for reference in done:
                    task = running.pop(reference)
                    ended, is_lost = _result_of(reference, task)
                    if is_lost and attempts[task.number] <= RETRIES:
                        waiting.append(task)
                    else:
                        yield msgspec.structs.replace(ended, attempts=attempts[task.number])
        finally:
            self._cancel(running)

    def _cancel(self, references: Iterable[Any]) -> None:
        if is_reachable(self._address):
            for reference in references:
                ray.cancel(reference, force=True)

    def _start(self, task: Task) -> Any:  # noqa: ANN401 - Ray is untyped
        """Give a task to Ray: to a whole node on the CPU, else to one GPU's share of its node."""
        nodes = _live_nodes()
        cpus = [resources["CPU"] for resources in nodes if resources.get("CPU", 0) >= 1]
        resources: dict[str, Any] = {"num_cpus": int(min(cpus, default=1))}
        if task.kind != CPU:
            accelerator = ACCELERATOR + task.kind
            shares = [
                each.get("CPU", 1) // each.get("GPU", 1) for each in nodes if accelerator in each
            ]
            resources = {
                "num_cpus": max(1, int(min(shares, default=1))),
                "num_gpus": 1,
                "resources": {accelerator: 0.001},
            }
        placed = run_task.options(**resources, scheduling_strategy="SPREAD")
        return placed.remote(msgspec.msgpack.encode(task), self._run_assignment)


def _live_nodes() -> list[dict[str, float]]:
    """Return the resources of the live nodes."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _startable(
    waiting: Iterable[Task], running: Collection[Task], pools: Sequence[Pool]
) -> list[Task]:
    """Return the waiting tasks for which their pools have devices."""
    found: list[Task] = []
    for pool in pools:
        busy = sum(task.kind == pool.kind for task in running)
        own = [task for task in waiting if task.kind == pool.kind]
        found += own[: max((pool.count or 1) - busy, 0)]
    return found


def _result_of(reference: Any, task: Task) -> tuple[Ended, bool]:  # noqa: ANN401 - Ray is untyped
    """Return how a task ended, and whether it was lost with its node or its process."""
    try:
        sent = ray.get(reference)
    except ray.exceptions.RayError as problem:
        lines = str(problem).strip().splitlines()
        reason = f"{type(problem).__name__}: {lines[-1] if lines else 'no reason given'}"
        is_lost = not isinstance(problem, ray.exceptions.RayTaskError)
        return Ended(number=task.number, reason=reason), is_lost
    return msgspec.msgpack.decode(sent, type=Ended, dec_hook=decode_event), False
