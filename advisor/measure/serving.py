"""Summarise the load on servers: goodput, latency by rate, and speed-ups over the baseline's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from advisor.domain.catalogue import NoisePrior
from advisor.domain.measurement import Interval, Measurement, MemoryBytes, Results
from advisor.domain.outcome import Completed
from advisor.domain.plan import Arm, Plan
from advisor.domain.question import LoadQuestion, Question
from advisor.domain.run_events import LoadMeasured
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.serving import RateLevel, ServedArm, ServedRequest, ServingResults
from advisor.measure.arms import summarise_arm
from advisor.statistics.goodput import (
    Goodput,
    LoadBlock,
    compare_processes,
    estimate_goodput,
)
from advisor.statistics.intervals import HALF_INTERVAL, nearest_rank
from advisor.statistics.replication import process_variance

PERCENTILES = (0.5, 0.95, 0.99)
#: Rates within this factor are one level.
SAME_RATE = 1.02
SECONDS_PER_HOUR, MILLION = 3600, 1_000_000
HOST_SOURCE = "sum of the peak resident set sizes of the server's processes"
TAIL = 0.025


def meets_limits(request: ServedRequest, load: LoadQuestion) -> bool:
    """Return whether a request was answered within both limits.

    A text of a single token has no time between tokens.
    """
    return (
        request.failure is None
        and request.ttft is not None
        and request.ttft <= load.ttft_seconds
        and (request.itl is None or request.itl <= load.itl_seconds)
    )


def load_block(measured: LoadMeasured, load: LoadQuestion) -> LoadBlock:
    """Return how many requests of a block met the limits."""
    met = sum(meets_limits(request, load) for request in measured.requests)
    return LoadBlock(measured.rate, met, len(measured.requests))


def valid_blocks(processes: Iterable[ProcessState]) -> list[LoadMeasured]:
    """Return the blocks that count."""
    return [block for process in processes for block in process.load_blocks if not block.discarded]


def has_failed(state: RunState, arm: str) -> bool:
    """Return whether a process of the arm failed, or its texts were wrong after the load."""
    return any(
        process.outcome is not None and not isinstance(process.outcome, Completed)
        for process in state.processes.get(arm, ())
    )


def estimate(state: RunState, arm: str, load: LoadQuestion, seed: int) -> Goodput | None:
    """Return the goodput of an arm from all blocks so far; None where no rate meets the limits."""
    blocks = valid_blocks(state.processes.get(arm, ()))
    return estimate_goodput([load_block(block, load) for block in blocks], load.share, seed)


def add_servers(
    results: Results, state: RunState, question: Question, noise: NoisePrior
) -> Results:
    """Return the results with the measurements of a run of the task `serve`.

    Speed-ups are ratios of goodputs. The baseline is that of the plan; where no rate meets the
    limits there, it is the arm with the least goodput.
    """
    load, plan = question.load, state.plan
    if load is None or plan is None:
        return results
    found = {
        arm.id: goodput
        for arm in plan.arms
        if (goodput := estimate(state, arm.id, load, question.seed)) is not None
    }
    deviation = estimate_deviation(state, found, load, noise)
    served = tuple(
        summarise_server(state, arm.id, found.get(arm.id), question, deviation)
        for arm in plan.arms
        if valid_blocks(state.processes.get(arm.id, ()))
    )
    serving = ServingResults(
        arms=tuple(sorted(served, key=lambda arm: -(arm.goodput.value if arm.goodput else 0.0))),
        batch_best=_batch_best(served),
        process_deviation=deviation if found else None,
    )
    results = msgspec.structs.replace(results, serving=serving)
    found = {arm: goodput for arm, goodput in found.items() if not has_failed(state, arm)}
    if not found:
        return results
    baseline = _baseline(plan, found)
    return msgspec.structs.replace(
        results,
        baseline=baseline,
        measurements=tuple(
            _measurement(state, arm, found, baseline, question, deviation)
            for arm in plan.arms
            if arm.id in found
        ),
        repeats=min(len(state.repeats), 1),
    )


def _baseline(plan: Plan, found: Mapping[str, Goodput]) -> str:
    if plan.baseline.id in found:
        return plan.baseline.id
    return min(found, key=lambda arm: found[arm].value)


def _measurement(
    state: RunState,
    arm: Arm,
    found: Mapping[str, Goodput],
    baseline: str,
    question: Question,
    deviation: float,
) -> Measurement:
    """Return the measurement of an arm without cells, whose speed-up is a ratio of goodputs."""
    speedup = ratio_interval(found[arm.id], found[baseline], deviation)
    if arm.id == baseline:
        speedup = Interval(value=1.0, low=1.0, high=1.0)
    summary = summarise_arm(state, arm, {}, None, dtype=question.dtype, margin=0.0, speedup=speedup)
    memory = summary.memory_bytes
    if question.device == "cpu" and memory.peak is not None:
        memory = MemoryBytes(peak=memory.peak, source=HOST_SOURCE)
    served = next(
        (each.serving for each in state.processes[arm.id] if each.serving is not None), None
    )
    settings = {**summary.settings, **(served.settings if served else {})}
    return msgspec.structs.replace(summary, memory_bytes=memory, settings=settings)


def ratio_interval(one: Goodput, other: Goodput, deviation: float) -> Interval:
    """Return the ratio of two goodputs with what differs between processes, two of each arm."""
    differences = sorted(a - b for a, b in zip(one.log_draws, other.log_draws, strict=True))
    value = math.log(one.value / other.value)
    low = differences[int(TAIL * len(differences))]
    high = differences[-1 - int(TAIL * len(differences))]
    between = deviation * HALF_INTERVAL
    return Interval(
        value=math.exp(value),
        low=math.exp(value - math.hypot(max(value - low, 0.0), between)),
        high=math.exp(value + math.hypot(max(high - value, 0.0), between)),
        between=deviation,
    )


def estimate_deviation(
    state: RunState, found: Mapping[str, Goodput], load: LoadQuestion, noise: NoisePrior
) -> float:
    """Return the standard deviation of the logarithm of one process's goodput.

    It is that of the arms' two processes, with what is known before the run.
    """
    differences, within = [], []
    for arm, goodput in found.items():
        processes = [
            [load_block(block, load) for block in valid_blocks([process])]
            for process in state.processes[arm]
        ]
        usable = [blocks for blocks in processes if blocks]
        if len(usable) != 2:  # noqa: PLR2004 - the search and its repetition
            continue
        first, second = usable
        difference, variance = compare_processes(first, second, load.share, goodput.slope)
        differences.append(difference)
        within.append(variance)
    prior = 2 * noise.process_deviation**2
    return math.sqrt(process_variance(differences, within, prior, noise.weight) / 2)


def summarise_server(
    state: RunState, arm: str, goodput: Goodput | None, question: Question, deviation: float
) -> ServedArm:
    """Return what the arm's server sustained."""
    load, processes = question.load, state.processes[arm]
    assert load is not None  # noqa: S101 - for the type checker: the caller has checked it
    blocks = valid_blocks(processes)
    levels = _levels(blocks, load, goodput.value if goodput else None)
    requests = [request for block in blocks for request in block.requests]
    answered = [request.output_tokens for request in requests if request.failure is None]
    mean_tokens = sum(answered) / len(answered) if answered else 0.0
    rate = goodput.value * mean_tokens if goodput else None
    price = question.price_per_hour
    return ServedArm(
        arm=arm,
        goodput=_goodput_interval(goodput, deviation) if goodput else None,
        tokens_per_second=rate,
        levels=levels,
        blocks=len(blocks),
        discarded=sum(block.discarded for each in processes for block in each.load_blocks),
        requests=len(requests),
        failed=sum(request.failure is not None for request in requests),
        command=next((each.serving.command for each in processes if each.serving), ""),
        batch_tokens_per_second=_batch_rate(processes, question),
        cost_per_million_tokens=price / SECONDS_PER_HOUR * MILLION / rate
        if price and rate
        else None,
    )


def _goodput_interval(goodput: Goodput, deviation: float) -> Interval:
    between = deviation * HALF_INTERVAL / math.sqrt(2)
    low, high = math.log(goodput.value / goodput.low), math.log(goodput.high / goodput.value)
    return Interval(
        value=goodput.value,
        low=goodput.value * math.exp(-math.hypot(low, between)),
        high=goodput.value * math.exp(math.hypot(high, between)),
        between=deviation,
    )


def _levels(
    blocks: Sequence[LoadMeasured], load: LoadQuestion, goodput: float | None
) -> tuple[RateLevel, ...]:
    """Return the latency at each rate, lowest rate first; blocks at about one rate are pooled."""
    groups: list[list[LoadMeasured]] = []
    for block in sorted(blocks, key=lambda each: each.rate):
        if groups and block.rate <= groups[-1][0].rate * SAME_RATE:
            groups[-1].append(block)
        else:
            groups.append([block])
    return tuple(_level(group, load, goodput) for group in groups)


def _level(blocks: Sequence[LoadMeasured], load: LoadQuestion, goodput: float | None) -> RateLevel:
    requests = [request for block in blocks for request in block.requests]
    rate = sum(block.rate for block in blocks) / len(blocks)
    met = sum(meets_limits(request, load) for request in requests)
    return RateLevel(
        rate=rate,
        share=rate / goodput if goodput else 0.0,
        requests=len(requests),
        failed=sum(request.failure is not None for request in requests),
        met=met / max(len(requests), 1),
        tokens_per_second=sum(request.output_tokens for request in requests)
        / sum(block.seconds for block in blocks),
        ttft_seconds=_percentiles(request.ttft for request in requests),
        itl_seconds=_percentiles(request.itl for request in requests),
    )


def _percentiles(values: Iterable[float | None]) -> tuple[float, float, float] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    p50, p95, p99 = (nearest_rank(known, share) for share in PERCENTILES)
    return p50, p95, p99


def _batch_rate(processes: Sequence[ProcessState], question: Question) -> float | None:
    """Return the tokens per second with equal prompts in one batch; None without a visit."""
    rates = sorted(
        visit.batch_size * question.output_tokens / seconds
        for process in processes
        for visit in process.visits
        for seconds in visit.seconds
    )
    return rates[len(rates) // 2] if rates else None


def _batch_best(served: Sequence[ServedArm]) -> str | None:
    known = [arm for arm in served if arm.batch_tokens_per_second is not None]
    best = max(known, key=lambda arm: arm.batch_tokens_per_second or 0.0, default=None)
    return best.arm if best else None
