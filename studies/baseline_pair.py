"""Start the baseline and its duplicate, and time calls of both with and without a disturbance."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from advisor.context import Context
from advisor.domain.plan import BASELINE, REFERENCE, Arm
from advisor.domain.run_events import Conditions, RunEvent, WorkerEnded
from advisor.errors import NothingViableError
from advisor.measure.rounds import log_median_seconds
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import open_session
from advisor.probing.conditions import ConditionsMonitor, GpuMonitor
from advisor.probing.session import Session
from advisor.question.answers import Answers
from advisor.statistics.intervals import Estimate, mean_interval
from probes.wire.events import BlockTimed

Sample = TypeVar("Sample")
#: Log seconds of a call of the baseline and of its duplicate, timed one after the other.
Pair = tuple[float, float]
#: Starts and ends a condition.
Condition = Callable[[], contextlib.AbstractContextManager[object]]

#: Probability with which each bound fails; the two bounds make a 95 % interval.
LEVEL = 0.025


@dataclasses.dataclass(frozen=True)
class Effect:
    """The change of the call time under a disturbance, next to the noise floor."""

    #: Log ratio of disturbed to undisturbed seconds.
    log_ratio: Estimate
    #: Largest share by which the baseline and its duplicate may differ, without the disturbance.
    noise: float
    #: The same with the disturbance.
    disturbed_noise: float

    @property
    def low(self) -> float:
        """Lower bound of the share by which a call takes longer."""
        return math.expm1(self.log_ratio.low)

    @property
    def value(self) -> float:
        """Share by which a call takes longer."""
        return math.expm1(self.log_ratio.value)

    @property
    def high(self) -> float:
        """Upper bound of the share by which a call takes longer."""
        return math.expm1(self.log_ratio.high)

    @property
    def largest_log_ratio(self) -> float:
        """Bound that is furthest from no change."""
        return max(abs(self.log_ratio.low), abs(self.log_ratio.high))

    def __str__(self) -> str:
        """Return the change in percent with its interval."""
        return (
            f"{self.value * 100:+.2f} % (95 %: {self.low * 100:+.2f} % to {self.high * 100:+.2f} %)"
        )


def sample_in_rounds(
    conditions: Mapping[str, Condition],
    measure: Callable[[str, int], Sample],
    rounds: int,
) -> dict[str, list[Sample]]:
    """Return one sample a round under each condition.

    `measure` gets the condition's name and the number of the round, from 1. The conditions come in
    random order within each round, so that drift affects all of them alike.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in conditions}
    generator = random.Random(0)
    for number in range(1, rounds + 1):
        for name in generator.sample(list(conditions), len(conditions)):
            with conditions[name]():
                samples[name].append(measure(name, number))
    return samples


def estimate_effect(undisturbed: Sequence[Pair], disturbed: Sequence[Pair]) -> Effect:
    """Return the effect of a disturbance from the pairs of the same rounds without and with it."""
    differences = [
        statistics.fmean(after) - statistics.fmean(before)
        for before, after in zip(undisturbed, disturbed, strict=True)
    ]
    return Effect(
        log_ratio=mean_interval(differences, LEVEL),
        noise=_noise_of(undisturbed),
        disturbed_noise=_noise_of(disturbed),
    )


def _noise_of(pairs: Sequence[Pair]) -> float:
    bounds = mean_interval([duplicate - baseline for baseline, duplicate in pairs], LEVEL)
    return max(abs(math.expm1(bound)) for bound in bounds)


#: Visits behind one value. One more visit comes first and is discarded, because the condition has
#: just changed.
VISITS = 3
NEXT_STEP = f"p3-advisor recommend --workflows {BASELINE} shows its log"


class TimedSession(Protocol):
    """The part of `Session` that times calls."""

    def visit(self, arm: str, batch_size: int, number: int, /) -> Iterator[RunEvent]:
        """Time one block of calls."""

    def last_visit(self, arm: str, /) -> BlockTimed | None:
        """Return the last block; None when the worker ended instead."""

    def last_conditions(self, arm: str, /) -> Conditions:
        """Return the conditions of the machine during the last block."""


@dataclasses.dataclass(frozen=True)
class PairSample:
    """One value of the baseline and one of its duplicate."""

    log_seconds: Pair
    #: One for each visit, the discarded ones included.
    conditions: tuple[Conditions, ...]


@dataclasses.dataclass(frozen=True)
class BaselinePair:
    """Workers of the baseline and its duplicate, built and warm."""

    session: Session
    #: The baseline and its duplicate.
    arms: tuple[str, str]
    batch_sizes: tuple[int, ...]
    conditions_monitor: ConditionsMonitor
    gpu_monitor: GpuMonitor | None


@contextlib.contextmanager
def open_baseline_pair(answers: Answers, context: Context) -> Iterator[BaselinePair]:
    """Start and build the baseline and its duplicate; end them with the block.

    Raise `NothingViableError` when a worker fails. The caller starts the GPU's poller.
    """
    run = prepare(msgspec.structs.replace(answers, workflows=BASELINE), context)
    header, plan = run.header(), run.state().plan
    arms = plan.arms[:2] if plan else ()
    gpu = header.question.gpu
    gpu_monitor = GpuMonitor(gpu) if gpu else None
    monitor = ConditionsMonitor([gpu_monitor] if gpu_monitor else ())
    with open_session(run, header, context, monitor) as session:
        _build(session, arms)
        baseline, duplicate = (arm.id for arm in arms)
        yield BaselinePair(
            session, (baseline, duplicate), header.question.batch_sizes, monitor, gpu_monitor
        )


def time_pair(
    session: TimedSession, arms: tuple[str, str], batch_size: int, round_number: int
) -> PairSample:
    """Return the log seconds of a call of both arms, each the median of `VISITS` visits."""
    conditions: list[Conditions] = []
    baseline, duplicate = (
        _time_arm(session, arm, batch_size, round_number, conditions) for arm in arms
    )
    return PairSample((baseline, duplicate), tuple(conditions))


def _time_arm(
    session: TimedSession,
    arm: str,
    batch_size: int,
    round_number: int,
    conditions: list[Conditions],
) -> float:
    values = []
    for _ in range(1 + VISITS):
        run_to_end(session.visit(arm, batch_size, round_number))
        visit = session.last_visit(arm)
        if visit is None:
            raise NothingViableError("a worker of the baseline ended while it was timed", NEXT_STEP)
        values.append(log_median_seconds(visit))
        conditions.append(session.last_conditions(arm))
    return statistics.median(values[1:])


def _build(session: Session, arms: tuple[Arm, ...]) -> None:
    run_to_end(session.start_reference(arms[0], 0))
    run_to_end(session.start([(arm, 0) for arm in arms]))
    if session.is_running(REFERENCE):
        run_to_end(session.send_and_wait(REFERENCE, "stop"))
    for arm in arms:
        run_to_end(session.build(arm.id))
        if not session.is_running(arm.id):
            raise NothingViableError(f"the worker of {arm.id} ended before it was timed", NEXT_STEP)


def run_to_end(run_events: Iterable[RunEvent]) -> None:
    """Consume the events of a step; raise `NothingViableError` when a worker ended in a failure."""
    for run_event in run_events:
        if isinstance(run_event, WorkerEnded) and (failure := run_event.outcome.failure):
            raise NothingViableError(
                f"the worker of {run_event.arm} ended: {failure.reason}", NEXT_STEP
            )
