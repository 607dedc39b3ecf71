"""One question asked of several models on several kinds of devices."""

from __future__ import annotations

import msgspec

FLEET_SCHEMA = "p3-advisor/fleet/1"
#: The kind of a device that is no accelerator.
CPU = "cpu"


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of one kind that may be measured on."""

    #: `cpu`, or an accelerator type as the cluster names it, such as `H200`.
    kind: str
    #: How many of them at a time; None: all there are.
    count: int | None = None
    price_per_hour: float | None = None


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet is asked."""

    fleet_id: str
    #: RFC 3339, with the zone.
    created: str
    models: tuple[str, ...]
    pools: tuple[Pool, ...]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one kind of device: all arms that are compared share the one device it is given."""

    number: int
    model: str
    kind: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try at an assignment, on one device of one node."""

    run_id: str
    node: str
    device: str


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """How an assignment ended: with a whole run, or with the reason why there is none."""

    assignment: Assignment
    #: In order; the last is the one that counts, those before it were lost with their node.
    attempts: tuple[Attempt, ...]
    reason: str | None = None
    next_step: str | None = None


class FleetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a fleet's answer; the runs themselves are stored like any other."""

    schema: str
    order: Order
    answered: tuple[Answered, ...] = ()
