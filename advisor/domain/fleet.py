"""One question asked of several models on several kinds of devices."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.domain.measurement import Interval

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


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered"):
    """How an assignment ended: with a whole run, or with the reason why there is none."""

    assignment: Assignment
    #: In order; the last is the one that counts, those before it were lost with their node.
    attempts: tuple[Attempt, ...]
    reason: str | None = None
    next_step: str | None = None


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a host went through while the baseline was timed on one of its GPUs; null for what it does not say."""

    #: Of the time, spent by the worker's threads waiting for a processor.
    queued_share: float | None
    throttled_seconds: float | None
    #: Of the GPU that was timed, as a median; and the share of the samples in which the power limit
    #: held its clocks down.
    power_w: float | None
    power_capped_share: float | None
    sm_clock_mhz: int | None
    #: Of all GPUs that were in use, both directions.
    pcie_bytes_per_second: float | None


class Contention(msgspec.Struct, frozen=True, kw_only=True, tag="contention"):
    """Whether a race notices another on a further GPU of its host: the baseline and its duplicate, timed with and without a neighbour."""

    node: str
    kind: str
    model: str
    #: Whether races may run side by side; if not, `words` says why.
    free: bool
    words: str
    #: Shares by which a call takes longer beside a busy neighbour: value and 95 % interval. Null
    #: where nothing was measured.
    change: Interval | None = None
    #: By how much the baseline and its duplicate may differ, without and with the neighbour.
    noise_alone: float | None = None
    noise_beside: float | None = None
    rounds: int = 0
    alone: Load | None = None
    beside: Load | None = None


class FleetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a fleet's answer; the runs themselves are stored like any other."""

    schema: str
    order: Order
    #: The options of the question and where the cluster is, to go on with it; empty in records of
    #: earlier programs.
    answers: dict[str, Any] = {}
    address: str = ""
    answered: tuple[Answered, ...] = ()
    contentions: tuple[Contention, ...] = ()
