"""Run the assignments of a fleet on a cluster and store their events."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from advisor.ask.answers import Answers
from advisor.domain.answer import (
    CPU,
    Assignment,
    AssignmentResult,
    Attempt,
    FleetRecord,
    FleetRequest,
    Pool,
)
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import Header
from advisor.domain.wire import snake_case
from advisor.fleet.node import Ended, Task
from advisor.store.runs import Run, Writer
from advisor.store.store import Store


class Started(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=snake_case):
    """A node has started an assignment, for the first time or after another node was lost."""

    number: int
    #: Identifies the attempt.
    token: str
    node: str
    device: str
    header: Header


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=snake_case):
    """A run has logged an event."""

    number: int
    token: str
    logged_event: LoggedEvent


TaskEvent = Started | Progress | Ended
ClusterEvent = TaskEvent | AssignmentResult


class Cluster(Protocol):
    """Places runs on devices."""

    def devices(self) -> Mapping[str, int]:
        """Return the number of devices of each kind."""

    def run(self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]) -> Iterator[TaskEvent]:
        """Run every task on a device of its kind; each ends with `Ended`."""


@dataclasses.dataclass
class _AssignmentState:
    """The attempts at one assignment so far, and the run of the current attempt."""

    assignment: Assignment
    attempts: list[Attempt] = dataclasses.field(default_factory=list)
    token: str = ""
    run: Run | None = None
    writer: Writer | None = None
    #: Closes the writer.
    resources: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)


def list_assignments(request: FleetRequest) -> tuple[Assignment, ...]:
    pairs = [(model, pool.kind) for model in request.models for pool in request.pools]
    return tuple(
        Assignment(number=number, model=model, kind=kind)
        for number, (model, kind) in enumerate(pairs, start=1)
    )


def unanswered_assignments(
    request: FleetRequest, ended: Sequence[AssignmentResult]
) -> tuple[Assignment, ...]:
    """Return the assignments that have no successful result in `ended`."""
    done = {one.assignment.number for one in ended if one.reason is None}
    return tuple(
        assignment for assignment in list_assignments(request) if assignment.number not in done
    )


def build_task(assignment: Assignment, request: FleetRequest, answers: Answers) -> Task:
    """Return the task that a node receives; the cluster chooses the GPU on the node."""
    pool = next(pool for pool in request.pools if pool.kind == assignment.kind)
    price = answers.price_per_hour if pool.price_per_hour is None else pool.price_per_hour
    own = msgspec.structs.replace(
        answers, model=assignment.model, gpu=CPU if pool.kind == CPU else "", price_per_hour=price
    )
    return Task(number=assignment.number, kind=assignment.kind, answers=own)


def run_fleet(
    request: FleetRequest,
    answers: Answers,
    cluster: Cluster,
    store: Store,
    ended: Sequence[AssignmentResult] = (),
) -> Iterator[ClusterEvent]:
    """Execute every run of the request that has no result in `ended`; store each as it goes on.

    Yield the events of the cluster and one `AssignmentResult` for each assignment. Events that come
    after the result of their assignment are dropped.
    """
    before = {one.assignment.number: one for one in ended}
    states = {
        assignment.number: _AssignmentState(
            assignment,
            list(before[assignment.number].attempts if assignment.number in before else ()),
        )
        for assignment in unanswered_assignments(request, ended)
    }
    kinds = {state.assignment.kind for state in states.values()}
    pools = tuple(pool for pool in request.pools if pool.kind in kinds)
    tasks = {
        number: build_task(state.assignment, request, answers) for number, state in states.items()
    }
    try:
        for event in cluster.run(tasks, pools):
            if event.number in states:
                yield from _store_event(event, states, request, store)
                yield event
    finally:
        for state in states.values():
            state.resources.close()


def _store_event(
    event: TaskEvent, states: dict[int, _AssignmentState], request: FleetRequest, store: Store
) -> Iterator[AssignmentResult]:
    """Store an event; yield the result, and remove the state, when it ends the assignment."""
    state = states[event.number]
    match event:
        case Started():
            _start_attempt(state, event, request, store)
        case Progress():
            if event.token == state.token and state.writer:
                state.writer.append(event.logged_event)
        case Ended():
            del states[event.number]
            state.resources.close()
            if state.run is not None and event.token == state.token:
                logs = {pathlib.PurePosixPath(name): text for name, text in event.logs.items()}
                state.run.replace_contents(event.events, logs)
                state.run.clear_scratch()
            yield AssignmentResult(
                assignment=state.assignment,
                attempts=tuple(state.attempts),
                reason=event.reason,
                next_step=event.next_step,
            )


def _start_attempt(
    state: _AssignmentState, event: Started, request: FleetRequest, store: Store
) -> None:
    """Create a new run for the attempt; the runs of earlier attempts are kept."""
    state.resources.close()
    # An attempt that was interrupted together with the caller is missing from `attempts`, but its
    # run is stored.
    run_ids = (
        f"{request.fleet_id}-{event.number:04}-{attempt}"
        for attempt in itertools.count(len(state.attempts) + 1)
    )
    run_id = next(run_id for run_id in run_ids if not store.run_directory(run_id).exists())
    state.run = store.create(msgspec.structs.replace(event.header, run_id=run_id))
    state.token = event.token
    state.writer = state.resources.enter_context(state.run.writer())
    state.attempts.append(Attempt(run_id=run_id, node=event.node, device=event.device))


def save_record(
    record: FleetRecord, results: Sequence[AssignmentResult], store: Store
) -> FleetRecord:
    """Store and return the record with new results; a newer result replaces an older one."""
    newest = {one.assignment.number: one for one in (*record.answered, *results)}
    in_order = tuple(newest[number] for number in sorted(newest))
    updated = msgspec.structs.replace(record, answered=in_order)
    store.fleets.save(updated)
    return updated
