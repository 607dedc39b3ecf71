"""Events of a run; `advisor.domain.event_folding` folds them into the run's state.

All are in one module, because together they are the format of a run's file.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.domain.answer import AnswerSummary
from advisor.domain.bounds import Amount, Count, Size
from advisor.domain.machine import QuietCheck
from advisor.domain.outcome import Outcome
from advisor.domain.plan import Arm, Plan
from advisor.domain.portability import Platform
from advisor.domain.serving import ServedRequest
from advisor.domain.worker_events import BlockTimed, WorkerEvent


class Planned(msgspec.Struct, frozen=True, kw_only=True, tag="planned"):
    """The run has a plan."""

    plan: Plan


class ArmsAdded(msgspec.Struct, frozen=True, kw_only=True, tag="arms-added"):
    """The plan has further arms, because the outputs of the arm `instead_of` vary."""

    added: tuple[Arm, ...]
    instead_of: str


class QuietChecked(msgspec.Struct, frozen=True, kw_only=True, tag="load-checked"):
    """The load of the machine was checked before measuring.

    `waits` is true if the run waits and checks again.
    """

    check: QuietCheck
    waits: bool = False


class WorkerSpawned(msgspec.Struct, frozen=True, kw_only=True, tag="spawned"):
    """A worker process of the arm was started.

    `process` counts the arm's processes from 0. `repeat` is 0 for the race and counts its
    repetitions in fresh processes from 1.
    """

    arm: str
    process: Count
    repeat: Count = 0


class BuildStarted(msgspec.Struct, frozen=True, kw_only=True, tag="build-started"):
    """A worker process begins to build, with processors that no other build uses meanwhile."""

    arm: str
    process: Count
    #: Number of its processors, and of builds that may run at the same time, this one included.
    processors: int
    builds_at_once: int
    #: Seconds that it and all builds that have not finished are expected to take, from earlier
    #: runs; null where a build has none.
    expected_seconds: float | None = None
    expected_seconds_left: float | None = None


class WorkerReported(msgspec.Struct, frozen=True, kw_only=True, tag="heard"):
    """A worker sent an event."""

    arm: str
    process: Count
    worker_event: WorkerEvent = msgspec.field(name="said")


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True, tag="device-memory"):
    """Increase in used device memory since before the worker started, as NVML reports it.

    Null where the device reports nothing or a figure that is impossible.
    """

    arm: str
    process: Count
    before_bytes: Count | None
    #: Peak so far, including builds, and use after the warm-up.
    peak_bytes: Count | None
    resident_bytes: Count | None
    #: Peak after the builds, during the warm-up.
    serving_bytes: Count | None = None
    #: Total memory of the device.
    total_bytes: Count | None = None
    #: Meaning of the figures: growth during the build, or, for a worker that was built alongside
    #: others, what its end freed.
    source: Literal["grown", "freed"] = "grown"


class MemoryChecked(msgspec.Struct, frozen=True, kw_only=True, tag="memory-checked"):
    """The device's count of an allocation of known size.

    The allocation does not use the allocator of any library.
    """

    allocated_bytes: Count
    seen_bytes: Count | None


class BusyWhileIdle(msgspec.Struct, frozen=True, kw_only=True, tag="restless"):
    """A worker used processors while it was idle.

    The supervisor pauses the busy processes between the worker's visits, because they would slow
    down the timed worker.
    """

    arm: str
    process: Count
    #: Number of processors it kept busy.
    processors: float


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of the machine during a visit.

    Shares are of the visit's time. Null is not known.
    """

    seconds: Amount
    #: Steal time, as a share of the time of all processors.
    stolen_share: float
    #: Time that the worker's threads waited for a processor.
    queued_share: float | None
    #: Time for which a cgroup throttled the worker.
    throttled_seconds: float | None
    sm_clock_mhz: int | None = None
    #: Share of the GPU's default clock.
    sm_clock_share: float | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    #: Share of samples with clocks throttled by heat or a hardware fault.
    thermal_throttled_share: float | None = msgspec.field(name="held_down_share", default=None)
    #: Share of samples with clocks throttled by the power limit.
    power_capped_share: float | None = None


class ConditionsRecorded(msgspec.Struct, frozen=True, kw_only=True, tag="watched"):
    """The conditions of the arm's last visit.

    `unfit` names the limit that they exceed. `discarded` visits are made again.
    """

    arm: str
    process: Count
    batch_size: Size
    round: Count
    conditions: Conditions
    unfit: str | None
    discarded: bool


class RepetitionStarted(msgspec.Struct, frozen=True, kw_only=True, tag="repeated"):
    """A repetition of the race in fresh processes begins with these arms."""

    repeat: Count
    arms: tuple[str, ...]


class EnergyMeasured(msgspec.Struct, frozen=True, kw_only=True, tag="energy"):
    """Energy that the GPUs used while the arm was called without a pause.

    The source is the energy counter of each GPU; null without one.
    """

    arm: str
    process: Count
    #: For a server, the number of requests at once.
    batch_size: Size
    joules: Amount | None


class LoadMeasured(msgspec.Struct, frozen=True, kw_only=True, tag="load-measured"):
    """One block of requests to an arm's server."""

    arm: str
    process: Count
    #: Requests per second that arrived, and the seconds in which they did.
    rate: float
    seconds: Amount
    #: The requests after the beginning of the block, which does not count.
    requests: tuple[ServedRequest, ...]
    #: Whether the load generator fell behind, so that the block does not count.
    discarded: bool
    #: Why the load generator gave no results; null where it did.
    problem: str | None = None


class WorkerEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """A worker process ended."""

    arm: str
    process: Count
    outcome: Outcome


class RaceOpened(msgspec.Struct, frozen=True, kw_only=True, tag="race-opened"):
    """The race at a batch size begins with these arms."""

    batch_size: Size
    arms: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.arms)) != len(self.arms):
            message = "an arm is named twice"
            raise ValueError(message)


#: Why a race ended: its verdict stands or the rounds are used up, the measuring time is used up, or
#: the baseline's worker ended.
EndCause = Literal["decided", "out-of-time", "baseline-ended"]


class RaceClosed(msgspec.Struct, frozen=True, kw_only=True, tag="race-closed"):
    """The race at a batch size ended."""

    batch_size: Size
    #: Why it ended, as a sentence.
    reason: str
    cause: EndCause


class ProvisionalAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="provisional-answer"):
    """What the advice would be from the arms that have raced so far."""

    answer: AnswerSummary
    #: Arms that still have to be built or raced.
    waiting: tuple[str, ...]


class OtherPlatformFound(msgspec.Struct, frozen=True, kw_only=True, tag="platform-known"):
    """An earlier run measured the model on this platform."""

    platform: Platform


class Resumed(msgspec.Struct, frozen=True, kw_only=True, tag="resumed"):
    """The run was resumed after it had stopped."""


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """All steps of the plan are done."""


RunEvent = (
    Planned
    | ArmsAdded
    | QuietChecked
    | WorkerSpawned
    | BuildStarted
    | WorkerReported
    | DeviceMemory
    | MemoryChecked
    | BusyWhileIdle
    | ConditionsRecorded
    | RepetitionStarted
    | EnergyMeasured
    | LoadMeasured
    | WorkerEnded
    | RaceOpened
    | RaceClosed
    | ProvisionalAnswer
    | OtherPlatformFound
    | Resumed
    | Finished
)


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a run's `events.jsonl`."""

    seq: Count
    #: Seconds since the run began, by a monotonic clock; a resumed run continues from its last
    #: event.
    at: Amount
    run_event: RunEvent = msgspec.field(name="happening")


def is_measurement(run_event: RunEvent) -> bool:
    """Return whether the event has timed calls of a workflow or of a server."""
    if isinstance(run_event, WorkerReported):
        return isinstance(run_event.worker_event, BlockTimed)
    return isinstance(run_event, LoadMeasured)
