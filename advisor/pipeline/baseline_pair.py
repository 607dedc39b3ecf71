"""Start the baseline and its duplicate on one device and time calls of both."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Iterable, Iterator
from typing import Protocol

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
from advisor.statistics.disturbance import Pair
from probes.wire.events import BlockTimed

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
