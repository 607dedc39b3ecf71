"""Does a race notice another on a further GPU of its host? The baseline and its duplicate, timed with and without a busy neighbour.

Races run side by side only where this was measured and shows nothing that counts; everywhere else
they take turns. A neighbour's builds are not looked at: they never overlap what is timed, on
whatever GPU (`advisor.system.host_lock`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
import random
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from advisor.context import Context
from advisor.domain.fleet import Contention, Load
from advisor.domain.measurement import Interval
from advisor.domain.outcome import Failure
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import Conditions, RunEvent
from advisor.domain.run_state import fold
from advisor.domain.worker_events import BlockTimed
from advisor.errors import NothingViableError, UserError
from advisor.fleet.node import Task, hold_host, world_at
from advisor.measure import block_value
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import open_session
from advisor.probing.conditions import GpuWatch, Guard
from advisor.probing.session import Session
from advisor.question.answers import Answers
from advisor.recommend import EPSILON
from advisor.statistics.intervals import paired_interval

BASELINE = "pytorch-eager"
ROUNDS = 16
#: Visits behind one value, after one that only settles what has changed.
VISITS = 3
LEVEL = 0.025
#: A change that is shown to be smaller counts as none, however quiet the host is.
NEGLIGIBLE = 0.005
CONDITIONS = ("alone", "beside")


class Timed(Protocol):
    """What is asked of the workers that are timed; a `Session`."""

    def visit(self, arm: str, batch_size: int, number: int) -> Iterator[RunEvent]:
        """Have one block of calls timed."""

    def last_visit(self, arm: str) -> BlockTimed | None:
        """Return what it measured; None if the worker ended instead."""

    def last_conditions(self, arm: str) -> Conditions:
        """Return what the machine went through meanwhile."""


@dataclasses.dataclass
class Series:
    """What was seen under one condition: log seconds of the baseline and its duplicate by batch size, a pair a round, and conditions."""

    pairs: dict[int, list[tuple[float, float]]]
    conditions: list[Conditions] = dataclasses.field(default_factory=list)
    pcie: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Resident:
    """Workers on one GPU, built and warm."""

    session: Session
    arms: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    watch: GpuWatch | None


def check(
    task: Task,
    node: str,
    gpus: Sequence[str],
    world_at: Callable[[pathlib.Path], Context] = world_at,
    rounds: int = ROUNDS,
) -> Contention:
    """Time the baseline of a task on the first of two GPUs while the second rests and works; whatever goes wrong allows nothing."""
    blank = Contention(node=node, kind=task.kind, model=task.answers.model, free=False, words="")
    with (
        tempfile.TemporaryDirectory(prefix="p3-advisor-") as home,
        hold_host(),
        contextlib.ExitStack() as residents,
    ):
        try:
            timed, neighbour = (
                residents.enter_context(
                    _open(task.answers, gpu, world_at(pathlib.Path(home) / str(place)))
                )
                for place, gpu in enumerate(gpus)
            )
            pcie = neighbour.watch.pcie_bytes_per_second if neighbour.watch else lambda: None
            seen = compare(
                timed.session, timed.arms, timed.batch_sizes, lambda: _busy(neighbour), pcie, rounds
            )
        except UserError as problem:
            return msgspec.structs.replace(
                blank, words=f"contention was not measured: {problem.what}; races take turns"
            )
    return judge(blank, seen)


def compare(
    timed: Timed,
    arms: Sequence[str],
    batch_sizes: Iterable[int],
    busy: Callable[[], contextlib.AbstractContextManager[None]],
    pcie: Callable[[], float | None] = lambda: None,
    rounds: int = ROUNDS,
) -> dict[str, Series]:
    """Time the baseline and its duplicate with and without a busy neighbour, in a random order within each round."""
    sizes = sorted({min(batch_sizes), max(batch_sizes)})
    seen = {condition: Series({size: [] for size in sizes}) for condition in CONDITIONS}
    chance = random.Random(0)  # noqa: S311 - an order of visits, not a secret
    for number in range(1, rounds + 1):
        for condition in chance.sample(CONDITIONS, len(CONDITIONS)):
            series = seen[condition]
            with busy() if condition == "beside" else contextlib.nullcontext():
                for size in sizes:
                    first, second = (_time(timed, arm, size, number, series) for arm in arms)
                    series.pairs[size].append((first, second))
                traffic = pcie()
                series.pcie += [] if traffic is None else [traffic]
    return seen


def judge(blank: Contention, seen: Mapping[str, Series]) -> Contention:
    """Say whether races may run side by side: at no batch size may the interval of the change leave the noise floor."""
    alone, beside = (seen[condition] for condition in CONDITIONS)
    changes = {size: _change(pairs, beside.pairs[size]) for size, pairs in alone.pairs.items()}
    worst = max(changes, key=lambda size: max(abs(changes[size][0]), abs(changes[size][2])))
    low, value, high = (math.expm1(each) for each in changes[worst])
    noise_alone, noise_beside = _noise(alone.pairs[worst]), _noise(beside.pairs[worst])
    limit = min(max(noise_alone, NEGLIGIBLE), EPSILON)
    free = -limit <= low and high <= limit
    if free:
        follows = "races may run side by side"
    else:
        follows = (
            "races take turns"
            if low > limit or high < -limit
            else "too noisy to show that it is nothing, so races take turns"
        )
    words = (
        f"beside a busy GPU a call of the baseline takes {value:+.2%} (95 %: {low:+.2%} to {high:+.2%}), "
        f"and two of its processes may differ by {noise_alone:.2%}: {follows}"
    )
    return msgspec.structs.replace(
        blank,
        free=free,
        words=words,
        change=Interval(value=value, low=low, high=high),
        noise_alone=noise_alone,
        noise_beside=noise_beside,
        rounds=len(alone.pairs[worst]),
        alone=_load(alone),
        beside=_load(beside),
    )


def _change(
    alone: Sequence[tuple[float, float]], beside: Sequence[tuple[float, float]]
) -> tuple[float, float, float]:
    return paired_interval(
        [
            statistics.fmean(two) - statistics.fmean(one)
            for one, two in zip(alone, beside, strict=True)
        ],
        LEVEL,
    )


def _noise(pairs: Sequence[tuple[float, float]]) -> float:
    return max(
        abs(math.expm1(bound))
        for bound in paired_interval([second - first for first, second in pairs], LEVEL)
    )


def _load(series: Series) -> Load:
    def median_of(name: str) -> float | None:
        known = [
            value
            for value in (getattr(conditions, name) for conditions in series.conditions)
            if value is not None
        ]
        return statistics.median(known) if known else None

    clock = median_of("sm_clock_mhz")
    return Load(
        queued_share=median_of("queued_share"),
        throttled_seconds=median_of("throttled_seconds"),
        power_w=median_of("power_w"),
        power_capped_share=median_of("power_capped_share"),
        sm_clock_mhz=int(clock) if clock is not None else None,
        pcie_bytes_per_second=statistics.median(series.pcie) if series.pcie else None,
    )


def _time(timed: Timed, arm: str, batch_size: int, number: int, series: Series) -> float:
    values = []
    for _ in range(1 + VISITS):
        _exhaust(timed.visit(arm, batch_size, number))
        visit = timed.last_visit(arm)
        if visit is None:
            raise NothingViableError(
                "the baseline's worker ended while it was timed", "see p3-advisor doctor"
            )
        values.append(block_value(visit))
        series.conditions.append(timed.last_conditions(arm))
    return statistics.median(values[1:])


@contextlib.contextmanager
def _open(answers: Answers, gpu: str, world: Context) -> Iterator[Resident]:
    """Start and build the baseline and its duplicate on a GPU; they are ended with the block."""
    run = prepare(msgspec.structs.replace(answers, gpu=gpu, workflows=BASELINE), world)
    header, plan = run.header(), fold(run.events()).plan
    arms = [arm for arm in plan.arms if BASELINE in {arm.id, arm.duplicate_of}] if plan else []
    watch = GpuWatch(header.question.gpu) if header.question.gpu else None
    guard = Guard(watch)
    with guard.running(), open_session(run, header, world, guard) as session:
        _bring_up(session, arms)
        yield Resident(session, tuple(arm.id for arm in arms), header.question.batch_sizes, watch)


def _bring_up(session: Session, arms: Sequence[Arm]) -> None:
    _exhaust(session.make_reference(arms[0], 0))
    _exhaust(session.start([(arm, 0) for arm in arms]))
    if session.is_running(REFERENCE):
        _exhaust(session.ask(REFERENCE, "stop"))
    for arm in arms:
        _exhaust(session.build(arm.id))
        if not session.is_running(arm.id):
            raise NothingViableError(
                f"{arm.id} ended, so there is nothing to time", "see p3-advisor doctor"
            )


@contextlib.contextmanager
def _busy(neighbour: Resident) -> Iterator[None]:
    """Keep the neighbour calling its model without a pause while the block runs."""
    over, problems = threading.Event(), list[UserError]()
    arm, size = neighbour.arms[0], max(neighbour.batch_sizes)

    def call() -> None:
        try:
            while not over.is_set():
                _exhaust(neighbour.session.visit(arm, size, 0))
        except UserError as problem:
            problems.append(problem)

    thread = threading.Thread(target=call, name="neighbour", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if problems:
        raise problems[0]


def _exhaust(run_events: Iterable[RunEvent]) -> None:
    for run_event in run_events:
        outcome = getattr(run_event, "outcome", None)
        if isinstance(outcome, Failure):
            raise NothingViableError(f"a worker ended: {outcome.reason}", "see p3-advisor doctor")
