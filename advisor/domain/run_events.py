"""Events of a run; `advisor.domain.event_folding` folds them into the run's state.

All are in one module, because together they are the format of a run's file.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Literal

import msgspec

from advisor.domain.answer import AnswerSummary
from advisor.domain.machine import QuietCheck
from advisor.domain.measurement import Start, Variant
from advisor.domain.plan import Arm, Plan
from advisor.domain.results import Platform
from advisor.domain.serving import ServedRequest
from advisor.domain.wire import check_bounds
from probes.events import Event, Visited, snake_case
from probes.outcome import Outcome
from probes.shape import Amount, Count, Shape


class _RunEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=snake_case):
    """The tag of an event is the name of its class in snake case, as that of a worker's event."""


class ProcessEvent(_RunEvent, frozen=True, kw_only=True):
    """An event of one worker process; `process` counts those of the arm from 0."""

    arm: str
    process: Count


class ArmsPlanned(_RunEvent, frozen=True, kw_only=True):
    """The run has a plan."""

    plan: Plan


class ArmsAdded(_RunEvent, frozen=True, kw_only=True):
    """The plan has further arms, because of what was found."""

    added: tuple[Arm, ...]
    because: str


class QuietChecked(_RunEvent, frozen=True, kw_only=True):
    """What else runs on the machine was checked before measuring.

    `waits` is true if the run waits and checks again.
    """

    check: QuietCheck
    waits: bool = False


class WorkerSpawned(ProcessEvent, frozen=True, kw_only=True):
    """A worker process of the arm was started.

    `repeat` is 0 for the race and counts its repetitions in fresh processes from 1.
    """

    repeat: Count = 0


class BuildStarted(ProcessEvent, frozen=True, kw_only=True):
    """A worker process begins to build, with processors that no other build uses meanwhile."""

    #: Number of its processors, and of builds that may run at the same time, this one included.
    processors: int
    builds_at_once: int
    #: Seconds that it and all builds that have not finished are expected to take, from earlier
    #: runs; null where a build has none.
    expected_seconds: float | None = None
    expected_seconds_left: float | None = None


class WorkerReported(ProcessEvent, frozen=True, kw_only=True):
    """A worker sent an event."""

    worker_event: Event


class DeviceMemory(ProcessEvent, frozen=True, kw_only=True):
    """Increase in used device memory since before the worker started, as NVML reports it.

    Null where the device reports nothing or a figure that is impossible.
    """

    #: Peak so far, including builds.
    peak_bytes: Count | None
    #: Peak after the builds, during the warm-up.
    serving_bytes: Count | None = None
    #: Total memory of the device.
    total_bytes: Count | None = None
    #: Meaning of the figures: growth during the build, or, for a worker that was built alongside
    #: others, what its end freed.
    source: Literal["grown", "freed"] = "grown"


class MemoryChecked(_RunEvent, frozen=True, kw_only=True):
    """The device's count of an allocation of known size.

    The allocation does not use the allocator of any library.
    """

    allocated_bytes: Count
    seen_bytes: Count | None


class BusyWhileIdle(ProcessEvent, frozen=True, kw_only=True):
    """A worker used processors while it was idle.

    The supervisor pauses the busy processes between the worker's visits, because they would slow
    down the timed worker.
    """

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
    #: Share of the GPU's default clock.
    sm_clock_share: float | None = None
    #: Share of samples with clocks throttled by heat or a hardware fault.
    thermal_throttled_share: float | None = None


class ConditionsRecorded(ProcessEvent, frozen=True, kw_only=True):
    """The conditions of the arm's last visit.

    `unfit` names the limit that they exceed. `discarded` visits are made again.
    """

    shape: Shape
    round: Count
    conditions: Conditions
    unfit: str | None
    discarded: bool


class RepetitionStarted(_RunEvent, frozen=True, kw_only=True):
    """A repetition of the race in fresh processes begins with these arms."""

    repeat: Count
    arms: tuple[str, ...]


class EnergyMeasured(ProcessEvent, frozen=True, kw_only=True):
    """Energy that the GPUs used while the arm was called without a pause.

    The source is the energy counter of each GPU; null without one.
    """

    #: The shape of the calls; for a server it has the number of requests at once.
    shape: Shape
    joules: Amount | None


class LoadMeasured(ProcessEvent, frozen=True, kw_only=True):
    """One block of requests to an arm's server."""

    #: Requests per second that arrived, and the seconds in which they did.
    rate: float
    seconds: Amount
    #: The requests after the warm-up of the block, which does not count.
    requests: tuple[ServedRequest, ...]
    #: Whether the load generator fell behind, so that the block does not count.
    discarded: bool
    #: Why the load generator gave no results; null where it did.
    problem: str | None = None


class StartMeasured(_RunEvent, frozen=True, kw_only=True):
    """An arm was started in a new process by one way."""

    arm: str
    start: Start


class VariantMeasured(_RunEvent, frozen=True, kw_only=True):
    """The code of an arm was tried with further lines."""

    arm: str
    variant: Variant


class WorkerEnded(ProcessEvent, frozen=True, kw_only=True):
    """A worker process ended."""

    outcome: Outcome


class RaceOpened(_RunEvent, frozen=True, kw_only=True):
    """The race at a shape begins with these arms."""

    shape: Shape
    arms: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.arms)) != len(self.arms):
            raise ValueError("an arm is named twice")


#: Why a race ended: an answer stands or the rounds are used up, the measuring time is used up, or
#: the baseline's worker ended.
EndCause = Literal["decided", "out-of-time", "baseline-ended"]


class RaceClosed(_RunEvent, frozen=True, kw_only=True):
    """The race at a shape ended."""

    shape: Shape
    #: Why it ended, as a sentence.
    reason: str
    cause: EndCause


class ProvisionalAnswer(_RunEvent, frozen=True, kw_only=True):
    """What the advice would be from the arms that have raced so far."""

    answer: AnswerSummary
    #: Arms that still have to be built or raced.
    waiting: tuple[str, ...]


class OtherPlatformFound(_RunEvent, frozen=True, kw_only=True):
    """An earlier run measured the model on this platform."""

    platform: Platform


class Resumed(_RunEvent, frozen=True, kw_only=True):
    """The run was resumed after it had stopped."""


class Finished(_RunEvent, frozen=True, kw_only=True):
    """All steps of the plan are done."""


def _kinds(base: type[_RunEvent]) -> list[type[_RunEvent]]:
    return [each for kind in base.__subclasses__() for each in _kinds(kind)] or [base]


if TYPE_CHECKING:
    RunEvent = _RunEvent
else:
    RunEvent = functools.reduce(operator.or_, _kinds(_RunEvent))


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a run's `events.jsonl`."""

    seq: Count
    #: Seconds since the run began, by a monotonic clock; a resumed run continues from its last
    #: event.
    at: Amount
    run_event: RunEvent

    def __post_init__(self) -> None:
        check_bounds(self)


def is_measurement(run_event: RunEvent) -> bool:
    """Return whether the event has timed calls of a workflow or of a server."""
    if isinstance(run_event, WorkerReported):
        return isinstance(run_event.worker_event, Visited)
    return isinstance(run_event, LoadMeasured)
