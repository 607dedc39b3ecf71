"""Summarise the load on servers: goodput, latency by rate, and speed-ups over the baseline's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from advisor.decide.arms import measurement_of
from advisor.decide.goodput import Goodput, compare_processes, estimate_goodput
from advisor.decide.intervals import HALF_INTERVAL
from advisor.decide.load_blocks import count_block, levels_of, valid_blocks
from advisor.decide.process_variance import process_variance, widen
from advisor.domain.catalogue import NoisePrior
from advisor.domain.measurement import Interval, Measurement
from advisor.domain.plan import Arm
from advisor.domain.question import LoadQuestion, Question
from advisor.domain.results import Results
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.serving import AskedRate, RateLevel, ServedArm, ServingResults, ServingRules
from advisor.recipes.server import started_command
from probes.events import ClosedLoop
from probes.shape import Shape

SECONDS_PER_HOUR, MILLION = 3600, 1_000_000
HOST_SOURCE = "sum of the peak resident set sizes of the server's processes"
#: A rate is certainly above the goodput if a smaller share of its requests met the limits.
SURELY_MISSED_SHARE = 0.5


def has_failed_process(state: RunState, arm: str) -> bool:
    """Return whether a process of the arm failed, or its texts were wrong after the load."""
    return any(process.failure is not None for process in state.processes.get(arm, ()))


def goodput_of_arm(state: RunState, arm: str, load: LoadQuestion, seed: int) -> Goodput | None:
    blocks = valid_blocks(state.processes.get(arm, ()))
    return estimate_goodput([count_block(block, load) for block in blocks], load.share, seed)


def add_servers(
    results: Results, state: RunState, question: Question, noise: NoisePrior
) -> Results:
    """Return the results with the measurements of a run of the task `serve`.

    Speed-ups are ratios of goodputs. The baseline is that of the plan; where no rate meets the
    limits there, it is the arm with the least goodput.
    """
    load, plan = question.load, state.plan
    if load is None:
        return results
    found = {
        each.id: goodput
        for each in plan.arms
        if (goodput := goodput_of_arm(state, each.id, load, question.seed)) is not None
    }
    deviation = estimate_deviation(state, found, load, noise)
    served = tuple(
        summarise_server(state, each.id, found.get(each.id), question, deviation)
        for each in plan.arms
        if valid_blocks(state.processes.get(each.id, ()))
    )
    serving = ServingResults(
        arms=tuple(sorted(served, key=lambda each: -(each.goodput.value if each.goodput else 0.0))),
        process_deviation=deviation if found else None,
    )
    results = msgspec.structs.replace(results, serving=serving)
    found = {arm: goodput for arm, goodput in found.items() if not has_failed_process(state, arm)}
    if not found:
        return results
    baseline = plan.baseline.id
    if baseline not in found:
        baseline = min(found, key=lambda arm: found[arm].value)
    processes = [process for each in state.processes.values() for process in each]
    return msgspec.structs.replace(
        results,
        baseline=baseline,
        measurements=tuple(
            _measurement(state, each, found, baseline, question, deviation)
            for each in plan.arms
            if each.id in found
        ),
        repeats=len({each.repeat for each in processes if each.repeat and valid_blocks([each])}),
    )


def _measurement(
    state: RunState,
    planned: Arm,
    found: Mapping[str, Goodput],
    baseline: str,
    question: Question,
    deviation: float,
) -> Measurement:
    """Return the measurement of an arm without cells, whose speed-up is a ratio of goodputs."""
    both = state.processes[planned.id], state.processes[baseline]
    process_error = standard_error(deviation, *both)
    ratio = found[planned.id].over(found[baseline], process_error * HALF_INTERVAL)
    speedup = msgspec.structs.replace(ratio, process_error=process_error)
    if planned.id == baseline:
        speedup = Interval(value=1.0, low=1.0, high=1.0)
    measured = measurement_of(state, planned, {}, None, question, speedup)
    memory = measured.memory_bytes
    if question.device == "cpu" and memory.peak is not None:
        memory = msgspec.structs.replace(memory, source=HOST_SOURCE)
    served = next(
        (each.serving for each in state.processes[planned.id] if each.serving is not None), None
    )
    settings = {**measured.settings, **(served.settings if served else {})}
    return msgspec.structs.replace(measured, memory_bytes=memory, settings=settings)


def standard_error(deviation: float, *arms: Sequence[ProcessState]) -> float:
    """Return the error between processes of a mean, or of the ratio of two means."""
    counts = (sum(bool(valid_blocks([process])) for process in each) for each in arms)
    return deviation * math.sqrt(sum(1 / max(count, 1) for count in counts))


def estimate_deviation(
    state: RunState, found: Mapping[str, Goodput], load: LoadQuestion, noise: NoisePrior
) -> float:
    """Return the standard deviation of the logarithm of one process's goodput."""
    differences = []
    for arm, goodput in found.items():
        processes = [
            [count_block(block, load) for block in valid_blocks([process])]
            for process in state.processes[arm]
        ]
        usable = [blocks for blocks in processes if blocks]
        if len(usable) != 2:  # noqa: PLR2004 - the search and its repetition
            continue
        first, second = usable
        differences.append(compare_processes(first, second, load.share, goodput.slope))
    prior = 2 * noise.process_deviation**2
    return math.sqrt(process_variance(differences, prior, noise.weight) / 2)


def summarise_server(
    state: RunState, arm: str, goodput: Goodput | None, question: Question, deviation: float
) -> ServedArm:
    load, processes = question.load, state.processes[arm]
    assert load is not None  # noqa: S101 - for the type checker: the caller has checked it
    blocks = valid_blocks(processes)
    levels = levels_of(blocks, load, goodput.value if goodput else None)
    requests = [request for block in blocks for request in block.requests]
    answered = [request.output_tokens for request in requests if request.failure is None]
    mean_tokens = sum(answered) / len(answered) if answered else 0.0
    rate = goodput.value * mean_tokens if goodput else None
    price = question.price_of_all_devices
    process_error = standard_error(deviation, processes)
    interval = widen(goodput, process_error * HALF_INTERVAL) if goodput else None
    return ServedArm(
        arm=arm,
        goodput=interval,
        tokens_per_second=rate,
        levels=levels,
        blocks=len(blocks),
        discarded=sum(block.discarded for each in processes for block in each.load_blocks),
        requests=len(requests),
        failed=sum(request.failure is not None for request in requests),
        texts_checked=sum(each.checked for one in processes for each in one.texts_sampled),
        command=next(filter(None, (started_command(each, question) for each in processes)), ""),
        batch_tokens_per_second=_batch_rate(processes, question),
        cost_per_million_tokens=price / SECONDS_PER_HOUR * MILLION / rate
        if price and rate
        else None,
        joules_per_token=_joules_per_token(processes, load),
        asked=compare_with_asked_rate(interval, levels, load.rate, price),
    )


def _batch_rate(processes: Sequence[ProcessState], question: Question) -> float | None:
    """Return the tokens per second with equal prompts in one batch, from the warm-up."""
    warmed_up = next((each.warmed_up for each in processes if each.warmed_up), {})
    rates = (
        shape.batch_size * question.output_tokens / warm.typical_seconds
        for shape, warm in warmed_up.items()
    )
    return max(rates, default=None)


def _joules_per_token(processes: Sequence[ProcessState], load: LoadQuestion) -> float | None:
    """Return the energy of a generated token in the closed loop with the most requests at once."""
    found = {
        loop.concurrency: energy.joules / (loop.requests * load.mean_output_tokens)
        for process in processes
        for loop in process.closed_loops
        for energy in process.energy
        if energy.shape == Shape(loop.concurrency) and energy.joules is not None and loop.requests
    }
    return found[max(found)] if found else None


def may_lead(state: RunState, arm: str, load: LoadQuestion, rules: ServingRules, seed: int) -> bool:
    """Return whether the arm's goodput can be the greatest one.

    It cannot where its interval is below another one, or where another goodput is far above all
    that the arm can reach.
    """
    goodputs = [
        goodput_of_arm(state, each.id, load, seed)
        for each in state.plan.arms
        if each.id != arm and not has_failed_process(state, each.id)
    ]
    best = max((found.low for found in goodputs if found is not None), default=0.0)
    own = goodput_of_arm(state, arm, load, seed)
    bound = goodput_bound(state.processes.get(arm, ()), load, rules.closed_loop_gain)
    is_beaten = own is not None and own.high < best
    return not is_beaten and (bound is None or best <= rules.far_below * bound)


def goodput_bound(
    processes: Sequence[ProcessState], load: LoadQuestion, gain: float
) -> float | None:
    """Return the least rate that the goodput is known not to exceed; None if none is known."""
    capacities = [
        max(loop.rate for loop in process.closed_loops)
        for process in processes
        if is_saturated(process.closed_loops, gain)
    ]
    missed = [
        block.rate
        for block in (count_block(each, load) for each in valid_blocks(processes))
        if block.met < SURELY_MISSED_SHARE * block.total
    ]
    return min([*capacities, *missed], default=None)


def is_saturated(loops: Sequence[ClosedLoop], gain: float) -> bool:
    """Return whether more requests at once made the last loop hardly faster than those before."""
    *before, last = [loop.rate for loop in loops] or [0.0]
    return bool(before) and last < gain * max(before)


#: Error of a quotient by rounding alone.
ROUNDING = 1e-9
#: A level shows the latency of each server where its rate is between these factors of that of a
#: server: a higher rate has a higher latency.
LEAST_RATE, MOST_RATE = 0.95, 1.3


def servers_for(rate: float, goodput: float) -> int:
    return max(1, math.ceil(rate / goodput - ROUNDING))


def compare_with_asked_rate(
    goodput: Interval | None,
    levels: Sequence[RateLevel],
    rate: float | None,
    price_per_hour: float | None,
) -> AskedRate | None:
    if rate is None or goodput is None or goodput.low is None or goodput.high is None:
        return None
    servers = servers_for(rate, goodput.value)
    own = rate / servers
    near = [level for level in levels if LEAST_RATE <= level.rate / own <= MOST_RATE]
    return AskedRate(
        rate=rate,
        verdict=_verdict(rate, goodput.low, goodput.high),
        servers=servers,
        fewest_servers=servers_for(rate, goodput.high),
        most_servers=servers_for(rate, goodput.low),
        level=min(near, key=lambda level: abs(math.log(level.rate / own)), default=None),
        price_per_hour=servers * price_per_hour if price_per_hour else None,
    )


def _verdict(rate: float, low: float, high: float) -> Literal["met", "not-met", "open"]:
    if rate <= low:
        return "met"
    return "not-met" if rate > high else "open"
