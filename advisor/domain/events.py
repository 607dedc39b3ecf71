"""What happens in a run, in order; a run's state is a fold over these."""

from __future__ import annotations

import msgspec

from advisor.domain.outcome import Outcome, Said
from advisor.domain.plan import Plan


class Planned(msgspec.Struct, frozen=True, kw_only=True, tag="planned"):
    """The plan is made."""

    plan: Plan


class Spawned(msgspec.Struct, frozen=True, kw_only=True, tag="spawned"):
    """A worker process of the arm was started; `process` counts the arm's processes from 0."""

    arm: str
    process: int


class Heard(msgspec.Struct, frozen=True, kw_only=True, tag="heard"):
    """A worker said something."""

    arm: str
    process: int
    said: Said


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True, tag="device-memory"):
    """What the device itself says that a worker took, from outside: above what was used before it touched the device."""

    arm: str
    process: int
    before_bytes: int
    #: Highest so far, builds included; and once everything was built and warm.
    peak_bytes: int
    resident_bytes: int


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


class Resumed(msgspec.Struct, frozen=True, kw_only=True, tag="resumed"):
    """The run was taken up again after it had stopped."""


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """Everything that was planned is done."""


Happening = Planned | Spawned | Heard | DeviceMemory | Ended | RaceOpened | RaceClosed | Resumed | Finished


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a run's `events.jsonl`."""

    seq: int
    #: Seconds since the run began, on a clock that never goes back; a resumed run goes on from its last.
    at: float
    happening: Happening
