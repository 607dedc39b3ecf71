"""The runs of a fleet: which there are, how a node executes one, and how they are stored."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import math
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from advisor.ask.answers import Answers
from advisor.ask.devices import VISIBLE_DEVICES
from advisor.context import Context
from advisor.domain.answer import CPU, Fleet, FleetCell, Pool
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import Header
from advisor.errors import FleetRequestError, UserError
from advisor.execute.drafts import prepare
from advisor.execute.execution import execute
from advisor.execute.starts import ComposeStarts
from advisor.store.store import Store
from advisor.version import __version__

EXAMPLE = 'write it like --on "gpu=H200,count=2,price=3.50" or --on cpu'


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One run with its options, as it is sent to a node."""

    #: Index of the cell in the fleet.
    number: int
    kind: str
    answers: Answers
    #: Version of the caller; a node with another version refuses the task.
    advisor_version: str = __version__


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A run has ended on a node, or the cluster has given it up for the `reason`."""

    number: int
    node: str | None = None
    device: str | None = None
    attempts: int = 0
    #: The run; null where none was started.
    header: Header | None = None
    events: tuple[LoggedEvent, ...] = ()
    reason: str | None = None
    next_step: str | None = None


class Cluster(Protocol):
    """Places runs on devices."""

    def devices(self) -> Mapping[str, int]:
        """Return the number of devices of each kind."""

    def run(self, tasks: Sequence[Task], pools: Sequence[Pool]) -> Iterator[Ended]:
        """Run every task on a device of its kind; each ends with `Ended`."""


def parse_models(text: str, default: str) -> tuple[str, ...]:
    """Return the models without duplicates, in the order given."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(names)) or (default,)


def parse_pool(text: str) -> Pool:
    """Parse the value of one `--on`; raise `FleetRequestError`."""
    fields = dict(_parse_field(part) for part in text.split(","))
    kind = fields.pop("gpu", "") or fields.pop(CPU, "")
    count, price = fields.pop("count", ""), fields.pop("price", "")
    if not kind:
        raise FleetRequestError(f"--on {text!r} names no device", EXAMPLE)
    if fields:
        raise FleetRequestError(f"--on {text!r}: unknown {', '.join(sorted(fields))}", EXAMPLE)
    try:
        pool = Pool(
            kind=kind,
            count=int(count) if count else None,
            price_per_hour=float(price) if price else None,
        )
    except ValueError as problem:
        raise FleetRequestError(f"--on {text!r}: {problem}", EXAMPLE) from problem
    if (pool.count is not None and pool.count < 1) or not 0 <= (
        pool.price_per_hour or 0
    ) < math.inf:
        raise FleetRequestError(f"--on {text!r}: the count or the price is out of range", EXAMPLE)
    return pool


def _parse_field(part: str) -> tuple[str, str]:
    name, _, value = part.strip().partition("=")
    return (name, value.strip()) if name != CPU else (CPU, CPU)


def choose_pools(
    requested: Sequence[Pool], devices: Mapping[str, int], prices: Mapping[str, float]
) -> tuple[Pool, ...]:
    """Return the requested pools with their counts, and with `prices` where they have none.

    Without a request, choose every kind of accelerator, or the CPUs when there is none. Raise
    `FleetRequestError` when the fleet has fewer devices.
    """
    if not requested:
        requested = [Pool(kind=kind) for kind in sorted(devices) if kind != CPU]
        requested = requested or [Pool(kind=CPU)]
    kinds = [pool.kind for pool in requested]
    if len(set(kinds)) < len(kinds):
        raise FleetRequestError(
            "two --on name the same kind of device", "use one --on for each kind, with its count"
        )
    for pool in requested:
        available = devices.get(pool.kind, 0)
        if available < (pool.count or 1):
            listed = ", ".join(f"{count} x {kind}" for kind, count in sorted(devices.items()))
            raise FleetRequestError(
                f"the fleet has {available} x {pool.kind}, {pool.count or 1} requested",
                f"choose from its devices: {listed or 'none'}",
            )
    return tuple(
        Pool(
            kind=pool.kind,
            count=pool.count or devices[pool.kind],
            price_per_hour=prices.get(pool.kind)
            if pool.price_per_hour is None
            else pool.price_per_hour,
        )
        for pool in requested
    )


def list_cells(models: Sequence[str], pools: Sequence[Pool]) -> tuple[FleetCell, ...]:
    return tuple(FleetCell(model=model, kind=pool.kind) for model in models for pool in pools)


def missing_tasks(fleet: Fleet, answers: Answers) -> list[Task]:
    """Return the tasks of the cells without a whole run; the cluster chooses the GPU on a node."""
    prices = {pool.kind: pool.price_per_hour for pool in fleet.pools}
    return [
        Task(
            number=number,
            kind=cell.kind,
            answers=msgspec.structs.replace(
                answers,
                model=cell.model,
                gpu=CPU if cell.kind == CPU else "",
                price_per_hour=answers.price_per_hour
                if (price := prices[cell.kind]) is None
                else price,
            ),
        )
        for number, cell in enumerate(fleet.cells)
        if cell.run_id is None or cell.reason is not None
    ]


def run_fleet(
    fleet: Fleet, tasks: Sequence[Task], cluster: Cluster, store: Store
) -> Iterator[tuple[Fleet, FleetCell]]:
    """Execute the tasks; yield the stored fleet and the new cell whenever one has ended."""
    store.fleets.save(fleet)
    cells = list(fleet.cells)
    kinds = {task.kind for task in tasks}
    for ended in cluster.run(tasks, [pool for pool in fleet.pools if pool.kind in kinds]):
        cell = msgspec.structs.replace(
            cells[ended.number],
            run_id=_store_run(fleet, ended, store),
            node=ended.node,
            device=ended.device,
            attempts=ended.attempts,
            reason=ended.reason,
            next_step=ended.next_step,
        )
        cells[ended.number] = cell
        fleet = msgspec.structs.replace(fleet, cells=tuple(cells))
        store.fleets.save(fleet)
        yield fleet, cell


def _store_run(fleet: Fleet, ended: Ended, store: Store) -> str | None:
    """Store the run as a new one and return its id; runs of an earlier try are kept."""
    if ended.header is None:
        return None
    ids = (f"{fleet.fleet_id}-{ended.number + 1:04}-{number}" for number in itertools.count(1))
    run_id = next(each for each in ids if not store.run_directory(each).exists())
    run = store.create(msgspec.structs.replace(ended.header, run_id=run_id))
    with run.writer() as writer:
        for event in ended.events:
            writer.append(event)
    run.clear_scratch()
    return run_id


def make_context(home: pathlib.Path) -> Context:
    """Return the context of a run on this node, with its runs stored in `home`."""
    # The cluster sets the variable to the GPU that it has chosen. The pipeline must see all GPUs,
    # because that GPU is named to it by index or UUID.
    environment = {name: value for name, value in os.environ.items() if name != VISIBLE_DEVICES}
    return Context(environment=environment, store=Store(home))


def run_assignment(
    task: Task,
    node: str,
    gpu: str,
    make_context: Callable[[pathlib.Path], Context] = make_context,
    compose: ComposeStarts | None = None,
) -> Ended:
    """Execute the task on this machine and return the run, or the reason of a `UserError`.

    `compose` is that of `advisor.execute.execution.execute`.
    `gpu` is an index or UUID, and is ignored when the task is for the CPU.
    """
    device = CPU if task.kind == CPU else gpu
    ended = Ended(number=task.number, node=node, device=device)
    if task.advisor_version != __version__:
        return msgspec.structs.replace(
            ended,
            reason=f"node {node} has p3-advisor {__version__}, the caller {task.advisor_version}",
            next_step="install the same version on every node",
        )
    with tempfile.TemporaryDirectory(prefix="p3-advisor-") as home, lock_host():
        context = make_context(pathlib.Path(home))
        run = None
        try:
            run = prepare(msgspec.structs.replace(task.answers, gpu=device), context)
            for _ in execute(run, context, compose=compose):
                pass
        except UserError as problem:
            ended = msgspec.structs.replace(ended, reason=problem.what, next_step=problem.next_step)
        if run is None:
            return ended
        return msgspec.structs.replace(ended, header=run.header(), events=tuple(run.events()))


@contextlib.contextmanager
def lock_host(file: pathlib.Path | None = None) -> Iterator[None]:
    """Hold this machine for one run of this user: runs at the same time would slow each other."""
    file = file or pathlib.Path(tempfile.gettempdir()) / f"p3-advisor-{os.getuid()}.lock"
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
