"""What happens in a run, in order; a run's state is a fold over these."""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.domain.measurement import Platform
from advisor.domain.outcome import Outcome
from advisor.domain.plan import Plan
from advisor.domain.worker_events import WorkerEvent


class Planned(msgspec.Struct, frozen=True, kw_only=True, tag="planned"):
    """The plan is made."""

    plan: Plan


class Spawned(msgspec.Struct, frozen=True, kw_only=True, tag="spawned"):
    """A worker process of the arm was started; `process` counts the arm's processes from 0.

    `repeat` is 0 for the race itself and counts its repetitions in fresh processes from 1.
    """

    arm: str
    process: int
    repeat: int = 0


class WorkerReported(msgspec.Struct, frozen=True, kw_only=True, tag="heard"):
    """A worker said something."""

    arm: str
    process: int
    said: WorkerEvent


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True, tag="device-memory"):
    """What the device itself says that a worker took, from outside: above what was used before it touched the device.

    Null for what the device did not say, or said and cannot be.
    """

    arm: str
    process: int
    before_bytes: int | None
    #: Highest so far, builds included; and once everything was built and warm.
    peak_bytes: int | None
    resident_bytes: int | None
    #: Highest since everything was built, while it warmed up.
    serving_bytes: int | None = None
    #: What the device has in all.
    total_bytes: int | None = None


class MemoryChecked(msgspec.Struct, frozen=True, kw_only=True, tag="memory-checked"):
    """What the device counted for an allocation that was known, made outside every library's own allocator."""

    allocated_bytes: int
    seen_bytes: int | None


class BusyWhileIdle(msgspec.Struct, frozen=True, kw_only=True, tag="restless"):
    """A worker went on working while it waited; what did is stopped between its turns, for it would slow down whoever is timed."""

    arm: str
    process: int
    #: How many processors it kept busy.
    processors: float


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """How fit the machine was while a visit ran; shares are of the visit's time, null is what cannot be seen here."""

    seconds: float
    #: Taken by the hypervisor for others, of all processors' time.
    stolen_share: float
    #: Spent by the worker's threads waiting for a processor.
    queued_share: float | None
    throttled_seconds: float | None
    sm_clock_mhz: int | None = None
    #: Of the clock that the GPU runs at by default.
    sm_clock_share: float | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    #: Shares of the samples in which clocks were held down by heat or a fault, and by the power
    #: limit.
    held_down_share: float | None = None
    power_capped_share: float | None = None


class ConditionsRecorded(msgspec.Struct, frozen=True, kw_only=True, tag="watched"):
    """The conditions of the arm's last visit; `unfit` says why it should not count, `discarded` that it is made again."""

    arm: str
    process: int
    batch_size: int
    round: int
    conditions: Conditions
    unfit: str | None
    discarded: bool


class Repeated(msgspec.Struct, frozen=True, kw_only=True, tag="repeated"):
    """A repetition in fresh processes begins between these arms."""

    repeat: int
    arms: tuple[str, ...]


class Energy(msgspec.Struct, frozen=True, kw_only=True, tag="energy"):
    """Joules that the GPU used while the arm was called without a pause, by the device's own counter; null where it does not count."""

    arm: str
    process: int
    batch_size: int
    joules: float | None


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """A worker ended."""

    arm: str
    process: int
    outcome: Outcome


class RaceOpened(msgspec.Struct, frozen=True, kw_only=True, tag="race-opened"):
    """The visits of a batch size begin, between these arms."""

    batch_size: int
    arms: tuple[str, ...]


class RaceClosed(msgspec.Struct, frozen=True, kw_only=True, tag="race-closed"):
    """No more visits for this batch size, and why: the verdict stands, or rounds, budget or rivals ran out."""

    batch_size: int
    reason: str


class Surveyed(msgspec.Struct, frozen=True, kw_only=True, tag="surveyed"):
    """What a workflow made of a model of the survey's panel.

    `untried` where eager PyTorch cannot run the model either: that says nothing about the workflow.
    """

    workflow: str
    model: str
    family: str
    verdict: Literal["pass", "wrong", "failed", "fell-back", "untried"]
    reason: str | None
    #: The earlier run that it was found in; null for this one.
    run: str | None = None


class PlatformKnown(msgspec.Struct, frozen=True, kw_only=True, tag="platform-known"):
    """When the run was made, the model had been measured on this platform too."""

    platform: Platform


class Resumed(msgspec.Struct, frozen=True, kw_only=True, tag="resumed"):
    """The run was taken up again after it had stopped."""


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """Everything that was planned is done."""


RunEvent = (
    Planned
    | Spawned
    | WorkerReported
    | DeviceMemory
    | MemoryChecked
    | BusyWhileIdle
    | ConditionsRecorded
    | Repeated
    | Energy
    | Ended
    | RaceOpened
    | RaceClosed
    | Surveyed
    | PlatformKnown
    | Resumed
    | Finished
)


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a run's `events.jsonl`."""

    seq: int
    #: Seconds since the run began, on a clock that never goes back; a resumed run goes on from its
    #: last.
    at: float
    run_event: RunEvent = msgspec.field(name="happening")
