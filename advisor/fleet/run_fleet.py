"""The runs of a fleet: which there are, on which devices, and how they are stored."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from advisor.ask.answers import Answers
from advisor.domain.answer import CPU, Fleet, FleetCell, Pool
from advisor.errors import FleetRequestError
from advisor.fleet.node import Ended, Task
from advisor.store.store import Store

EXAMPLE = 'write it like --on "gpu=H200,count=2,price=3.50" or --on cpu'


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
