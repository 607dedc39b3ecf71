"""A fleet: one question for several models on several kinds of devices."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.domain.wire import snake_case

FLEET_SCHEMA = "p3-advisor/fleet/2"
#: Kind of the pool without accelerators.
CPU = "cpu"


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of one kind."""

    #: `cpu`, or the cluster's name of the accelerator type, such as `H200`.
    kind: str
    #: Number of devices used at a time; null for all.
    count: int | None = None
    price_per_hour: float | None = None


class FleetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The models and pools of a fleet."""

    fleet_id: str
    #: RFC 3339 with time zone.
    created: str
    models: tuple[str, ...]
    pools: tuple[Pool, ...]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one kind of device; all its arms run on the same device."""

    number: int
    model: str
    kind: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at an assignment, on one device of one node."""

    run_id: str
    node: str
    device: str


class AssignmentResult(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=snake_case
):
    """The result of an assignment: a finished run, or the reason why there is none."""

    assignment: Assignment
    #: In order of time. The last one counts; the others were lost with their node.
    attempts: tuple[Attempt, ...]
    reason: str | None = None
    next_step: str | None = None


class FleetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The stored result of a fleet; its runs are stored like other runs."""

    schema: str
    request: FleetRequest
    #: Options of the question and address of the cluster, to resume the fleet.
    answers: dict[str, Any] = {}
    address: str = ""
    answered: tuple[AssignmentResult, ...] = ()
