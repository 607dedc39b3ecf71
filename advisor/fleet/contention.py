"""Measure whether a run slows down a run on another GPU of the same host.

The baseline and its duplicate are timed on one GPU with and without a busy neighbour on another.
Races of a fleet run in parallel on a host only where this check has measured no effect. The check
ignores the neighbour's builds: a build never overlaps a timed section, on any GPU
(`advisor.system.host_lock`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from advisor.context import Context
from advisor.domain.fleet import ContentionCheck, HostLoad
from advisor.domain.interval import Interval
from advisor.domain.results import EQUIVALENCE_MARGIN
from advisor.errors import UserError
from advisor.fleet.node import Task, lock_host, make_context
from advisor.pipeline.baseline_pair import (
    BaselinePair,
    PairSample,
    TimedSession,
    open_baseline_pair,
    run_to_end,
    time_pair,
)
from advisor.question.answers import Answers
from advisor.statistics.disturbance import Condition, Effect, estimate_effect, sample_in_rounds
from advisor.system.number_format import format_share

ROUNDS = 16
#: A change that is shown to be smaller counts as no change, however quiet the host is.
NEGLIGIBLE_SHARE = 0.005
ALONE, WITH_NEIGHBOUR = "alone", "with-neighbour"


@dataclasses.dataclass(frozen=True)
class ContentionSample:
    """One sample of a round: a pair for each batch size, and the PCIe traffic."""

    pairs: Mapping[int, PairSample]
    pcie_bytes_per_second: float | None


def check_contention(
    task: Task,
    node: str,
    gpus: Sequence[str],
    make_context: Callable[[pathlib.Path], Context] = make_context,
    rounds: int = ROUNDS,
) -> ContentionCheck:
    """Time the task's baseline on the first of two GPUs while the second is idle and busy.

    A `UserError` becomes a check that does not allow parallel runs.
    """
    empty = ContentionCheck(
        node=node,
        kind=task.kind,
        model=task.answers.model,
        allows_parallel_runs=False,
        explanation="",
    )
    with (
        tempfile.TemporaryDirectory(prefix="p3-advisor-") as home,
        lock_host(),
        contextlib.ExitStack() as pairs,
    ):
        try:
            timed, neighbour = (
                pairs.enter_context(
                    _open_monitored(task.answers, gpu, make_context(pathlib.Path(home) / str(slot)))
                )
                for slot, gpu in enumerate(gpus)
            )
            samples = measure_contention(
                timed.session,
                timed.arms,
                timed.batch_sizes,
                lambda: _keep_busy(neighbour),
                lambda: _read_pcie(neighbour),
                rounds,
            )
        except UserError as problem:
            return not_measured(empty, problem.what)
    return decide_contention(empty, samples)


def not_measured(check: ContentionCheck, reason: str) -> ContentionCheck:
    """Return the check with the reason why contention was not measured."""
    return msgspec.structs.replace(
        check, explanation=f"contention was not measured: {reason}; runs execute one at a time"
    )


def measure_contention(
    session: TimedSession,
    arms: tuple[str, str],
    batch_sizes: Iterable[int],
    busy_neighbour: Condition,
    read_pcie: Callable[[], float | None] = lambda: None,
    rounds: int = ROUNDS,
) -> dict[str, list[ContentionSample]]:
    """Return samples by condition, of the smallest and the largest batch size."""
    sizes = sorted({min(batch_sizes), max(batch_sizes)})

    def measure(_condition: str, round_number: int) -> ContentionSample:
        pairs = {size: time_pair(session, arms, size, round_number) for size in sizes}
        return ContentionSample(pairs, read_pcie())

    conditions = {ALONE: contextlib.nullcontext, WITH_NEIGHBOUR: busy_neighbour}
    return sample_in_rounds(conditions, measure, rounds)


def decide_contention(
    empty: ContentionCheck, samples: Mapping[str, Sequence[ContentionSample]]
) -> ContentionCheck:
    """Return whether runs may execute in parallel on the host.

    They may when, at every batch size, the whole interval of the change is within the noise floor.
    """
    alone, disturbed = samples[ALONE], samples[WITH_NEIGHBOUR]
    effects = [
        estimate_effect(
            [sample.pairs[size].log_seconds for sample in alone],
            [sample.pairs[size].log_seconds for sample in disturbed],
        )
        for size in alone[0].pairs
    ]
    worst = max(effects, key=lambda effect: effect.largest_log_ratio)
    limit = min(max(worst.noise, NEGLIGIBLE_SHARE), EQUIVALENCE_MARGIN)
    return msgspec.structs.replace(
        empty,
        allows_parallel_runs=-limit <= worst.low and worst.high <= limit,
        explanation=f"with a busy neighbour the time of a baseline call changes by {worst}; "
        f"noise floor {format_share(worst.noise, 2)}: {_conclusion(worst, limit)}",
        change=Interval(value=worst.value, low=worst.low, high=worst.high),
        noise_alone=worst.noise,
        noise_with_neighbour=worst.disturbed_noise,
        rounds=len(alone),
        alone=_summarise_load(alone),
        with_neighbour=_summarise_load(disturbed),
    )


def _conclusion(effect: Effect, limit: float) -> str:
    if -limit <= effect.low and effect.high <= limit:
        return "runs may execute in parallel"
    if effect.low > limit or effect.high < -limit:
        return "runs execute one at a time"
    return "too noisy to exclude an effect, so runs execute one at a time"


def _summarise_load(samples: Sequence[ContentionSample]) -> HostLoad:
    conditions = [
        each for sample in samples for pair in sample.pairs.values() for each in pair.conditions
    ]
    pcie = [sample.pcie_bytes_per_second for sample in samples]
    clock = _median([each.sm_clock_mhz for each in conditions])
    return HostLoad(
        queued_share=_median([each.queued_share for each in conditions]),
        throttled_seconds=_median([each.throttled_seconds for each in conditions]),
        power_w=_median([each.power_w for each in conditions]),
        power_capped_share=_median([each.power_capped_share for each in conditions]),
        sm_clock_mhz=int(clock) if clock is not None else None,
        pcie_bytes_per_second=_median(pcie),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _read_pcie(pair: BaselinePair) -> float | None:
    return pair.gpu_monitor.pcie_bytes_per_second() if pair.gpu_monitor else None


@contextlib.contextmanager
def _open_monitored(answers: Answers, gpu: str, context: Context) -> Iterator[BaselinePair]:
    """Open the baseline pair on one GPU and start the GPU's poller."""
    own = msgspec.structs.replace(answers, gpu=gpu)
    with open_baseline_pair(own, context) as pair, pair.conditions_monitor.running():
        yield pair


@contextlib.contextmanager
def _keep_busy(neighbour: BaselinePair) -> Iterator[None]:
    """Call the neighbour's model without a pause while the block runs."""
    stop, problems = threading.Event(), list[UserError]()
    arm, size = neighbour.arms[0], max(neighbour.batch_sizes)

    def call_until_stopped() -> None:
        try:
            while not stop.is_set():
                run_to_end(neighbour.session.visit(arm, size, 0))
        except UserError as problem:
            problems.append(problem)

    thread = threading.Thread(target=call_until_stopped, name="neighbour", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if problems:
        raise problems[0]
