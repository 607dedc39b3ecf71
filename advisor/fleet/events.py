"""The events of a fleet, and the interface of a cluster that sends them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from advisor.domain.answer import AssignmentResult, Pool
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import Header
from advisor.domain.wire import snake_case
from advisor.fleet.node import NodeRunResult, Task


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


class Completed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=snake_case):
    """A node has finished an assignment."""

    number: int
    token: str
    result: NodeRunResult


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=snake_case):
    """The cluster has given an assignment up."""

    number: int
    reason: str


TaskEvent = Started | Progress | Completed | Failed
ClusterEvent = TaskEvent | AssignmentResult


class Cluster(Protocol):
    """Places runs on devices."""

    def devices(self) -> Mapping[str, int]:
        """Return the number of devices of each kind."""

    def run(self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]) -> Iterator[TaskEvent]:
        """Run every task on a device of its kind; each ends with `Completed` or `Failed`."""
