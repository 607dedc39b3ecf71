"""Stage above the pipeline: several models on several kinds of devices, one race for each pair, placed by a cluster.

A race never spans machines or devices. The cluster (Ray, extra `fleet`) schedules, retries and
carries; here is only what it cannot know: which races there are, where their events are kept, and
what became of each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from advisor.domain.fleet import (
    CPU,
    Answered,
    Assignment,
    Attempt,
    Contention,
    FleetRecord,
    Order,
    Pool,
)
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent
from advisor.fleet.node import Packed, Task
from advisor.question.answers import Answers
from advisor.store import Run, Store
from advisor.store.runs import Writer


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """A node has taken an assignment up; after a lost node another does."""

    number: int
    token: str
    node: str
    device: str
    header: Header


class Told(msgspec.Struct, frozen=True, kw_only=True, tag="told"):
    """Something happened in a race."""

    number: int
    token: str
    event: LoggedEvent


class Delivered(msgspec.Struct, frozen=True, kw_only=True, tag="delivered"):
    """A node has ended an assignment."""

    number: int
    token: str
    packed: Packed


class Undone(msgspec.Struct, frozen=True, kw_only=True, tag="undone"):
    """The cluster has given an assignment up."""

    number: int
    reason: str


Notice = Begun | Told | Delivered | Undone
News = Notice | Contention | Answered


class Cluster(Protocol):
    """Whatever places races on devices."""

    def devices(self) -> Mapping[str, int]:
        """Return how many devices of each kind there are."""

    def run(
        self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]
    ) -> Iterator[Notice | Contention]:
        """Have every task done on a device of its kind; each ends with `Delivered` or `Undone`."""


@dataclasses.dataclass
class _Entry:
    """One assignment as far as it has come."""

    assignment: Assignment
    attempts: list[Attempt] = dataclasses.field(default_factory=list)
    token: str = ""
    run: Run | None = None
    writer: Writer | None = None
    hold: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)


def assign(order: Order) -> tuple[Assignment, ...]:
    """Return one assignment for each model and kind of device."""
    pairs = [(model, pool.kind) for model in order.models for pool in order.pools]
    return tuple(
        Assignment(number=number, model=model, kind=kind)
        for number, (model, kind) in enumerate(pairs, start=1)
    )


def due(order: Order, ended: Sequence[Answered]) -> tuple[Assignment, ...]:
    """Return the assignments that have no answer among those that have `ended`."""
    done = {one.assignment.number for one in ended if one.reason is None}
    return tuple(assignment for assignment in assign(order) if assignment.number not in done)


def task_of(assignment: Assignment, order: Order, answers: Answers) -> Task:
    """Return what a node has to know; which GPU it is, the cluster says there."""
    pool = next(pool for pool in order.pools if pool.kind == assignment.kind)
    price = answers.price_per_hour if pool.price_per_hour is None else pool.price_per_hour
    own = msgspec.structs.replace(
        answers, model=assignment.model, gpu=CPU if pool.kind == CPU else "", price_per_hour=price
    )
    return Task(number=assignment.number, kind=assignment.kind, answers=own)


def ask(
    order: Order, answers: Answers, cluster: Cluster, store: Store, ended: Sequence[Answered] = ()
) -> Iterator[News]:
    """Have every race of the order made, store the runs as they come, and tell how each assignment ended; what comes later is dropped.

    Of those that have `ended` already, only the ones without an answer are made.
    """
    before = {one.assignment.number: one for one in ended}
    entries = {
        assignment.number: _Entry(
            assignment,
            list(before[assignment.number].attempts if assignment.number in before else ()),
        )
        for assignment in due(order, ended)
    }
    pools = tuple(
        pool
        for pool in order.pools
        if pool.kind in {entry.assignment.kind for entry in entries.values()}
    )
    tasks = {number: task_of(entry.assignment, order, answers) for number, entry in entries.items()}
    try:
        for notice in cluster.run(tasks, pools):
            if isinstance(notice, Contention):
                yield notice
            elif notice.number in entries:
                yield from _take(notice, entries, order, store)
                yield notice
    finally:
        for entry in entries.values():
            entry.hold.close()


def _take(
    notice: Notice, entries: dict[int, _Entry], order: Order, store: Store
) -> Iterator[Answered]:
    """Store what a notice says; of an assignment that has ended nothing is remembered."""
    entry = entries[notice.number]
    match notice:
        case Begun():
            _begin(entry, notice, order, store)
        case Told():
            if notice.token == entry.token and entry.writer:
                entry.writer.append(notice.event)
        case Delivered():
            del entries[notice.number]
            yield _deliver(entry, notice, order, store)
        case Undone():
            del entries[notice.number]
            entry.hold.close()
            yield Answered(
                assignment=entry.assignment, attempts=tuple(entry.attempts), reason=notice.reason
            )


def _begin(entry: _Entry, notice: Begun, order: Order, store: Store) -> None:
    """Open a run of its own for the attempt: what an attempt before it had measured stays where it is."""
    entry.hold.close()
    # Of an attempt that the caller did not live to see the end of, only its run is there.
    run_ids = (
        f"{order.fleet_id}-{notice.number:04}-{attempt}"
        for attempt in itertools.count(len(entry.attempts) + 1)
    )
    run_id = next(run_id for run_id in run_ids if not store.place_of(run_id).exists())
    entry.run = store.create(msgspec.structs.replace(notice.header, run_id=run_id))
    entry.token = notice.token
    entry.writer = entry.hold.enter_context(entry.run.writer())
    entry.attempts.append(Attempt(run_id=run_id, node=notice.node, device=notice.device))


def _deliver(entry: _Entry, notice: Delivered, order: Order, store: Store) -> Answered:
    """Put the whole run in the place of what was heard of it on the way."""
    packed = notice.packed
    entry.hold.close()
    if packed.header is not None:
        if entry.run is None or entry.token != notice.token:
            begun = Begun(
                number=notice.number,
                token=notice.token,
                node=packed.node,
                device=packed.device,
                header=packed.header,
            )
            _begin(entry, begun, order, store)
            entry.hold.close()
        if entry.run is not None:
            entry.run.rewrite(
                packed.events,
                {pathlib.PurePosixPath(name): text for name, text in packed.logs.items()},
            )
            entry.run.clear_scratch()
    return Answered(
        assignment=entry.assignment,
        attempts=tuple(entry.attempts),
        reason=packed.reason,
        next_step=packed.next_step,
    )


def keep(
    known: FleetRecord,
    answered: Sequence[Answered],
    contentions: Sequence[Contention],
    store: Store,
) -> FleetRecord:
    """Keep what is known of a fleet's answer so far, the newest of each assignment, in their order."""
    newest = {one.assignment.number: one for one in (*known.answered, *answered)}
    in_order = tuple(newest[number] for number in sorted(newest))
    whole = msgspec.structs.replace(
        known, answered=in_order, contentions=(*known.contentions, *contentions)
    )
    store.fleets.keep(whole)
    return whole
