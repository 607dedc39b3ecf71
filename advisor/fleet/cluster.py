"""The only place that knows Ray: it places tasks on devices, carries what they tell, and does lost ones again."""

from __future__ import annotations

import collections
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.queue import Queue
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from advisor.domain.fleet import CPU, Contention, Pool
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent
from advisor.errors import FleetUnreachableError
from advisor.fleet import Begun, Delivered, Notice, Told, Undone, contention
from advisor.fleet.node import Packed, Task, race

LOCAL = "local"
ACCELERATOR = "accelerator_type:"
#: A race that has lost its node as often as this is given up: something about it, not the nodes, is
#: to blame.
RETRIES = 3
TICK_SECONDS = 0.2
#: Ticks between two looks at whether there still is a device for what waits.
TICKS_PER_LOOK = 25
MOST_AT_ONCE = 1000
#: Ray itself asks an address that does not answer for minutes.
ANSWER_SECONDS = 10
#: How often the head is looked for, and how long one that has gone is waited for.
KNOCK_SECONDS, RESTART_SECONDS = 2, 40
#: Only races travel through it, and those are small; Ray's own choice is a third of the memory.
OBJECT_STORE_BYTES = 256 << 20
NODE_DIGITS = 8

Work = Callable[[Task, str, str, Callable[[Header | LoggedEvent], None]], Packed]
Check = Callable[[Task, str, Sequence[str]], Contention]


@ray.remote(max_retries=RETRIES)
def do(task: bytes, post: Queue, work: Work) -> bytes:
    """Do one task where it was placed; tell of it through `post`."""
    asked = msgspec.msgpack.decode(task, type=Task)
    node, token = _here(), uuid.uuid4().hex
    gpu = next((str(number) for number in ray.get_gpu_ids()), "")

    def tell(said: Header | LoggedEvent) -> None:
        notice: Notice
        if isinstance(said, Header):
            notice = Begun(
                number=asked.number,
                token=token,
                node=node,
                device=asked.kind if asked.kind == CPU else gpu,
                header=said,
            )
        else:
            notice = Told(number=asked.number, token=token, event=said)
        # Nobody waits for it to arrive: that would stretch the pauses between visits. One caller's
        # words arrive in their order.
        post.actor.put_nowait.remote(msgspec.msgpack.encode(notice))

    return msgspec.msgpack.encode(
        Delivered(number=asked.number, token=token, packed=work(asked, node, gpu, tell))
    )


@ray.remote(max_retries=0)
def look(task: bytes, check: Check) -> bytes:
    """See on the node whether races on its GPUs notice each other."""
    gpus = [str(number) for number in ray.get_gpu_ids()]
    return msgspec.msgpack.encode(check(msgspec.msgpack.decode(task, type=Task), _here(), gpus))


class Head:
    """The node that a cluster cannot do without; Ray ends the processes that ask it for a minute in vain, so it is not asked then."""

    def __init__(
        self,
        address: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._address, self._clock, self._sleep = address, clock, sleep
        self._knocked = clock()

    def answers(self) -> bool:
        """Say whether it is there; one of our own is."""
        try:
            _knock(self._address)
        except FleetUnreachableError:
            return False
        return True

    def wait(self, *, at_once: bool = False) -> None:
        """Return while it is there, and when one that restarts is back; raise `FleetUnreachableError` when it stays away."""
        if self._clock() < self._knocked + KNOCK_SECONDS and not at_once:
            return
        patience = self._clock() + RESTART_SECONDS
        while not self.answers():
            if self._clock() > patience:
                raise _gone(f"its head at {self._address!r}")
            self._sleep(1)
        self._knocked = self._clock()


class RayCluster:
    """A Ray cluster, joined as a driver; `local` starts one on this machine."""

    def __init__(
        self, address: str, work: Work = race, check: Check = contention.check, **own: object
    ) -> None:
        # Nothing is told to anybody, and what the workers print is kept in the runs.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        if address == LOCAL:
            # Ray has its workers step back for others, as nothing that is measured should.
            os.environ.setdefault("RAY_worker_niceness", "0")
            own = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES, **own}
        else:
            _knock(address)
            own = {"address": address}
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **own)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as problem:
            raise _unreachable(address, problem) from problem
        self._head = Head(address)
        self._work = work
        self._check = check

    def close(self) -> None:
        """Leave the cluster; end it if it is our own."""
        if self._head.answers():
            ray.shutdown()

    def devices(self) -> Mapping[str, int]:
        """Return how many devices of each kind there are on nodes that are alive."""
        found: collections.Counter[str] = collections.Counter()
        for resources in _alive().values():
            kinds = [
                name.removeprefix(ACCELERATOR) for name in resources if name.startswith(ACCELERATOR)
            ]
            for kind in kinds:
                found[kind] += int(resources.get("GPU", 0))
            found[CPU] += resources.get("CPU", 0) >= 1
        return {kind: count for kind, count in found.items() if count}

    def run(
        self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]
    ) -> Iterator[Notice | Contention]:
        """Have every task done on a device of its kind; each ends with `Delivered` or `Undone`."""
        free = yield from self._find_free_hosts(tasks, pools)
        # Beside the driver: what a node has told must not be lost with another node.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        post = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
        groups = {pool.kind: _reserve(pool) for pool in pools}
        waiting: dict[Any, Task] = {}
        try:
            for task in tasks.values():
                placed = do.options(
                    **_demands(task.kind),
                    scheduling_strategy=PlacementGroupSchedulingStrategy(groups[task.kind]),
                )
                told = msgspec.structs.replace(task, beside=free.get(task.kind, ()))
                waiting[placed.remote(msgspec.msgpack.encode(told), post, self._work)] = task
            yield from self._listen(waiting, post)
        finally:
            if self._head.answers():
                for reference in waiting:
                    ray.cancel(reference, force=True)
                for group in groups.values():
                    remove_placement_group(group)
                post.shutdown(force=True)

    def _find_free_hosts(
        self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]
    ) -> Generator[Contention, None, dict[str, tuple[str, ...]]]:
        """Have every host with several GPUs in question checked with every model; return by kind those on which nothing was noticed."""
        asked: dict[Any, tuple[str, str, Task]] = {}
        for pool in pools:
            own = [task for task in tasks.values() if task.kind == pool.kind]
            if pool.kind == CPU or pool.count == 1 or len(own) == 1:
                continue
            for node, resources in _alive().items():
                if ACCELERATOR + pool.kind in resources and resources.get("GPU", 0) > 1:
                    there = NodeAffinitySchedulingStrategy(node, soft=False)
                    placed = look.options(
                        num_gpus=2, num_cpus=2 * _cpus_of(pool.kind), scheduling_strategy=there
                    )
                    for task in own:
                        asked[placed.remote(msgspec.msgpack.encode(task), self._check)] = (
                            pool.kind,
                            node[:NODE_DIGITS],
                            task,
                        )
        busy: set[tuple[str, str]] = set()
        for reference, (kind, node, task) in asked.items():
            found = _contention_of(
                reference,
                Contention(node=node, kind=kind, model=task.answers.model, free=False, words=""),
            )
            busy |= set() if found.free else {(kind, node)}
            yield found
        hosts = {(kind, node) for kind, node, _ in asked.values()} - busy
        return {
            kind: tuple(sorted(node for other, node in hosts if other == kind)) for kind, _ in hosts
        }

    def _listen(self, waiting: dict[Any, Task], post: Queue) -> Iterator[Notice]:
        ticks = 0
        while waiting:
            self._head.wait()
            done, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=TICK_SECONDS)
            try:
                yield from _read(post)
            except ray.exceptions.ActorUnavailableError:
                self._head.wait(at_once=True)
            except ray.exceptions.RayActorError as problem:
                self._head.wait(at_once=True)
                raise _gone(f"the node of this process: {_words_of(problem)}") from problem
            for reference in done:
                yield _end_of(reference, waiting.pop(reference).number)
            ticks = 0 if done else ticks + 1
            if ticks == TICKS_PER_LOOK:
                ticks = 0
                yield from self._give_up(waiting)

    def _give_up(self, waiting: dict[Any, Task]) -> Iterator[Notice]:
        """End the tasks for which no device is left: they would wait for ever."""
        there = self.devices()
        for reference, task in list(waiting.items()):
            if task.kind not in there:
                del waiting[reference]
                ray.cancel(reference, force=True)
                yield Undone(number=task.number, reason=f"the fleet has lost its last {task.kind}")


def _here() -> str:
    return str(ray.get_runtime_context().get_node_id()[:NODE_DIGITS])


def _knock(address: str) -> None:
    """Raise `FleetUnreachableError` soon where nobody listens; an address that has no port is left to Ray."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
        except (OSError, OverflowError) as problem:
            raise _unreachable(address, problem) from problem


def _unreachable(address: str, problem: Exception) -> FleetUnreachableError:
    first = str(problem).strip().partition("\n")[0]
    return FleetUnreachableError(
        f"no Ray cluster answers at {address!r}: {first}",
        "look at ray status there; a cluster that asks for a token wants RAY_AUTH_MODE=token here too",
    )


def _gone(what: str) -> FleetUnreachableError:
    return FleetUnreachableError(
        f"the fleet has lost {what}; what was answered and measured is kept",
        "start it again, then: p3-advisor fleet --resume",
    )


def _alive() -> dict[str, dict[str, float]]:
    """Return the resources of the nodes that are alive, by their whole ids."""
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def _cpus_of(kind: str) -> int:
    """Return the processors a race may count on: a whole node's for the CPU, else each GPU's share of its node's."""
    nodes = _alive().values()
    if kind == CPU:
        return int(min(resources["CPU"] for resources in nodes if resources.get("CPU", 0) >= 1))
    hosts = [resources for resources in nodes if ACCELERATOR + kind in resources]
    return max(
        1, int(min(resources.get("CPU", 1) // resources.get("GPU", 1) for resources in hosts))
    )


def _demands(kind: str) -> dict[str, float]:
    return {"num_cpus": _cpus_of(kind), "num_gpus": 0 if kind == CPU else 1}


def _reserve(pool: Pool) -> PlacementGroup:
    """Ask for as many devices as the pool has; tasks of its kind are placed on these."""
    bundle: dict[str, float] = {"CPU": _cpus_of(pool.kind)}
    if pool.kind != CPU:
        bundle |= {"GPU": 1, ACCELERATOR + pool.kind: 0.001}
    bundles = [dict(bundle) for _ in range(pool.count or 1)]
    group: PlacementGroup = placement_group(
        bundles, strategy="STRICT_SPREAD" if pool.kind == CPU else "SPREAD"
    )
    return group


def _read(post: Queue) -> Iterator[Notice]:
    while size := post.qsize():
        for notice in post.get_nowait_batch(min(size, MOST_AT_ONCE)):
            yield msgspec.msgpack.decode(notice, type=Notice)


def _end_of(reference: Any, number: int) -> Notice:  # noqa: ANN401 - Ray's references are untyped
    try:
        delivered: Delivered = msgspec.msgpack.decode(ray.get(reference), type=Delivered)
    except ray.exceptions.RayError as problem:
        return Undone(number=number, reason=_words_of(problem))
    return delivered


def _contention_of(reference: Any, blank: Contention) -> Contention:  # noqa: ANN401 - as above
    try:
        found: Contention = msgspec.msgpack.decode(ray.get(reference), type=Contention)
    except ray.exceptions.RayError as problem:
        return msgspec.structs.replace(
            blank, words=f"contention was not measured: {_words_of(problem)}; races take turns"
        )
    return found


def _words_of(problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[-1] if lines else 'no reason given'}"
