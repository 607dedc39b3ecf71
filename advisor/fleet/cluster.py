"""Place the runs of a fleet on a Ray cluster, forward their events and retry lost ones.

No other module imports Ray.
"""

from __future__ import annotations

import collections
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.queue import Queue
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from advisor.domain.answer import CPU, Pool
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import Header
from advisor.domain.wire import decode_event
from advisor.fleet.head import (
    LOCAL,
    check_address,
    connection_lost,
    is_reachable,
    refuse_open,
    unreachable,
)
from advisor.fleet.node import Ended, Publish, Task, run_assignment
from advisor.fleet.run_fleet import Progress, Started, TaskEvent

#: Prefix of the resource with which Ray names the kind of a node's GPUs.
ACCELERATOR = "accelerator_type:"
#: Retries of a run that lost its node. It then fails, because the run itself may be the cause.
RETRIES = 3
POLL_SECONDS = 0.2
#: Polls without a result before the waiting tasks' devices are checked.
POLLS_PER_DEVICE_CHECK = 25
MAX_EVENTS_PER_READ = 1000
#: The object store holds finished runs only, which are small. Ray's default is a third of the
#: memory.
OBJECT_STORE_BYTES = 256 << 20
#: Leading digits of a node's id that identify it to the user.
NODE_DIGITS = 8

RunAssignment = Callable[[Task, str, str, Publish], Ended]


@ray.remote(max_retries=RETRIES)
def run_task(task: bytes, queue: Queue, run_assignment: RunAssignment) -> bytes:
    """Run one task on the device where Ray has placed it; send its events through `queue`."""
    decoded = msgspec.msgpack.decode(task, type=Task)
    node, token = _node_name(), uuid.uuid4().hex
    gpu = next((str(number) for number in ray.get_gpu_ids()), "")

    def publish(logged: Header | LoggedEvent) -> None:
        event: TaskEvent
        if isinstance(logged, Header):
            event = Started(
                number=decoded.number,
                token=token,
                node=node,
                device=decoded.kind if decoded.kind == CPU else gpu,
                header=logged,
            )
        else:
            event = Progress(number=decoded.number, token=token, logged_event=logged)
        sent = queue.actor.put_nowait.remote(msgspec.msgpack.encode(event))
        if isinstance(event, Started):
            # The first message could be overtaken, and what comes before it is dropped. Others are
            # not awaited, because waiting would lengthen the pauses between visits.
            ray.get(sent)

    ended = run_assignment(decoded, node, gpu, publish)
    return msgspec.msgpack.encode(msgspec.structs.replace(ended, token=token))


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
        for resources in _live_nodes().values():
            kinds = [
                name.removeprefix(ACCELERATOR) for name in resources if name.startswith(ACCELERATOR)
            ]
            for kind in kinds:
                counts[kind] += int(resources.get("GPU", 0))
            counts[CPU] += resources.get("CPU", 0) >= 1
        return {kind: count for kind, count in counts.items() if count}

    def run(self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]) -> Iterator[TaskEvent]:
        """Run every task on a device of its kind; each ends with `Ended`."""
        # On the driver's node, so that the loss of another node does not lose events.
        driver_node = NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=True
        )
        queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": driver_node})
        groups = {pool.kind: _reserve_devices(pool) for pool in pools}
        waiting: dict[Any, Task] = {}
        try:
            for task in tasks.values():
                placed = run_task.options(
                    **_resources_of(task.kind),
                    scheduling_strategy=PlacementGroupSchedulingStrategy(groups[task.kind]),
                )
                sent = msgspec.msgpack.encode(task)
                waiting[placed.remote(sent, queue, self._run_assignment)] = task
            yield from self._poll(waiting, queue)
        finally:
            if is_reachable(self._address):
                for reference in waiting:
                    ray.cancel(reference, force=True)
                for group in groups.values():
                    remove_placement_group(group)
                queue.shutdown(force=True)

    def _poll(self, waiting: dict[Any, Task], queue: Queue) -> Iterator[TaskEvent]:
        """Yield events until every task has ended; remove from `waiting` those that have."""
        polls = 0
        while waiting:
            # Ray ends a process that has tried to reach its head for a minute.
            if not is_reachable(self._address):
                raise connection_lost(f"the head node at {self._address!r}")
            done, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=POLL_SECONDS)
            try:
                yield from _read_events(queue)
            except ray.exceptions.ActorUnavailableError:
                continue  # the start of an attempt has to be read before its end
            except ray.exceptions.RayActorError as problem:
                raise connection_lost(f"this process's node ({_format(problem)})") from problem
            for reference in done:
                yield _end_event(reference, waiting.pop(reference).number)
            polls = 0 if done else polls + 1
            if polls == POLLS_PER_DEVICE_CHECK:
                polls = 0
                yield from self._fail_tasks_without_device(waiting)

    def _fail_tasks_without_device(self, waiting: dict[Any, Task]) -> Iterator[TaskEvent]:
        """Cancel the tasks whose kind of device is gone; they would wait for ever."""
        devices = self.devices()
        for reference, task in list(waiting.items()):
            if task.kind not in devices:
                del waiting[reference]
                ray.cancel(reference, force=True)
                reason = f"no live node has a device of kind {task.kind}"
                yield Ended(number=task.number, reason=reason)


def _node_name() -> str:
    return str(ray.get_runtime_context().get_node_id()[:NODE_DIGITS])


def _live_nodes() -> dict[str, dict[str, float]]:
    """Return the resources of the live nodes, by full node id."""
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def _cpus_of(kind: str) -> int:
    """Return the processors reserved for a run.

    On the CPU it gets a whole node, else one GPU's share of its node.
    """
    nodes = _live_nodes().values()
    if kind == CPU:
        return int(min(resources["CPU"] for resources in nodes if resources.get("CPU", 0) >= 1))
    hosts = [resources for resources in nodes if ACCELERATOR + kind in resources]
    return max(
        1, int(min(resources.get("CPU", 1) // resources.get("GPU", 1) for resources in hosts))
    )


def _resources_of(kind: str) -> dict[str, float]:
    return {"num_cpus": _cpus_of(kind), "num_gpus": 0 if kind == CPU else 1}


def _reserve_devices(pool: Pool) -> PlacementGroup:
    """Reserve the devices of the pool, on which the tasks of its kind are placed."""
    bundle: dict[str, float] = {"CPU": _cpus_of(pool.kind)}
    if pool.kind != CPU:
        bundle |= {"GPU": 1, ACCELERATOR + pool.kind: 0.001}
    bundles = [dict(bundle) for _ in range(pool.count or 1)]
    group: PlacementGroup = placement_group(
        bundles, strategy="STRICT_SPREAD" if pool.kind == CPU else "SPREAD"
    )
    return group


def _read_events(queue: Queue) -> Iterator[TaskEvent]:
    while size := queue.qsize():
        for event in queue.get_nowait_batch(min(size, MAX_EVENTS_PER_READ)):
            yield msgspec.msgpack.decode(event, type=TaskEvent, dec_hook=decode_event)


def _end_event(reference: Any, number: int) -> Ended:  # noqa: ANN401 - Ray is untyped
    try:
        sent = ray.get(reference)
    except ray.exceptions.RayError as problem:
        return Ended(number=number, reason=_format(problem))
    return msgspec.msgpack.decode(sent, type=Ended, dec_hook=decode_event)


def _format(problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[-1] if lines else 'no reason given'}"
