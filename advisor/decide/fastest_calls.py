"""A second estimate of each speed-up, from the fastest calls of all visits.

Other work on the machine slows most calls and hardly the fastest ones. On two cores, eager PyTorch
against ONNX Runtime, the paired rounds gave 1.3x when quiet and 26x next to one busy process, the
fastest calls 1.5x.

Other work makes calls slower and never faster, so the fastest times vary least from run to run.
Source: Chen and Revels, "Robust benchmarking in noisy environments" (arXiv:1608.04295, 2016), which
takes the minimum.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from advisor.decide.intervals import HALF_INTERVAL, Estimate, mean_of_samples, weighted_mean
from advisor.decide.rounds import RESAMPLES, counted_visits
from advisor.domain.machine import Doubt
from advisor.domain.measurement import Cell, Interval, Measurement
from advisor.domain.run_events import ConditionsRecorded
from advisor.domain.run_state import RunState
from probes.shape import Shape

#: A thread count with more digits is not a thread count.
MOST_DIGITS = 7
#: Fewer calls have no tail: their fastest ones are the middle.
FEWEST_CALLS = 10
#: Share of the calls that lie below the level: the fastest one of up to a hundred. Next to one
#: busy process, 3 of 66 calls of a small network with many parallel regions were undisturbed.
FASTEST_CALL_SHARE = 0.01
#: A call of less than this share of the typical one was not disturbed as others were.
FASTER = 0.8
#: Undisturbed calls take equally long: within this factor of the fastest, in this many visits.
ALIKE, FEWEST_ALIKE = 1.15, 3
#: Seconds that a thread waits at least for another process: a tick of Linux at 250 Hz, and at 1000
#: Hz, its highest rate. No wait fits into a shorter call.
TIME_SLICE, SHORTEST_WAIT = 0.004, 0.001
#: The share of waiting time is measured no more precisely than this, and no call is shorter.
LEAST_SHARE, SHORTEST_CALL = 0.01, 0.00001
#: Most values that a resample looks at; more are thinned evenly.
MOST_VALUES = 4000
#: Seconds of the calls of each visit.
Calls = Sequence[Sequence[float]]


def reconcile(
    state: RunState, measurements: Sequence[Measurement], margin: float
) -> Iterator[Measurement]:
    """Yield the measurements with the second estimate where it contradicts the paired rounds.

    The speed-up is then that of the fastest calls. Its interval spans both, unless other work
    disturbed most visits, which explains the difference; the call times are then those of the
    fastest calls as well. `margin` is the share by which typical and fastest calls may differ on a
    quiet machine.
    """
    baseline = state.plan.baseline.id
    references = {
        cell.shape: _reference(state, measurements, measured, cell)
        for measured in measurements
        if measured.arm == baseline
        for cell in measured.cells
    }
    for measured in measurements:
        cells = [
            _compare(state, measured, cell, references[cell.shape], margin)
            for cell in measured.cells
        ]
        scaled = tuple(_with_seconds(cell, references[cell.shape].factor) for cell in cells)
        changed = msgspec.structs.replace(measured, cells=scaled)
        is_changed = any(cell.fastest_calls for cell in cells)
        yield _with_overall_speedup(changed) if is_changed else changed


class _Program(NamedTuple):
    calls: Calls
    #: What the fastest call is multiplied by where other work delayed all of them most.
    least_share: float


class _Reference(NamedTuple):
    """What the calls of the arms are compared with at a shape."""

    #: The baseline and its duplicate.
    arms: Sequence[str]
    program: _Program
    #: What all call times are multiplied by: other work disturbed those of the baseline.
    factor: float
    #: The arm with the fastest call.
    leader: str


def _reference(
    state: RunState, measurements: Sequence[Measurement], baseline: Measurement, cell: Cell
) -> _Reference:
    arms = [each.id for each in state.plan.arms if baseline.arm in {each.id, each.duplicate_of}]
    program = _program(state, cell.shape, arms, baseline.settings)
    fastest = fastest_call(program.calls, fewest=1)
    is_disturbed = _is_disturbed(state, arms, cell.shape)
    factor = fastest / cell.seconds.median if fastest and is_disturbed else 1.0
    leader = _fastest_arm(state, measurements, baseline.arm, cell.shape)
    return _Reference(arms, program, factor, leader)


def _compare(
    state: RunState, measured: Measurement, cell: Cell, reference: _Reference, margin: float
) -> Cell:
    """Return the cell with the ratio of the fastest calls where it contradicts the speed-up."""
    if (arm := measured.arm) == state.plan.baseline.id:
        return cell
    paired, is_disturbed = cell.speedup, _is_disturbed(state, (*reference.arms, arm), cell.shape)
    own, theirs = _program(state, cell.shape, [arm], measured.settings), reference.program
    mine, other = own.calls, theirs.calls
    if not is_disturbed:
        mine, other = _without_odd_visits(mine), _without_odd_visits(other)
    # Disturbed rounds say nothing, so even a few calls say more.
    found = _ratio_of_fastest(mine, other, margin, fewest=1 if is_disturbed else FEWEST_CALLS)
    if found is None or paired.low is None or paired.high is None:
        return cell
    if not (is_disturbed or _contradict(paired, found, margin)):
        return cell
    low, ratio, high = found
    missed = _missed_factor(state, arm, reference.leader, cell.shape)
    # A program whose undisturbed calls were missed is faster than its fastest call, never slower.
    # If no undisturbed call was seen, every share above the least one is equally likely.
    of_own, of_theirs = (own.least_share, theirs.least_share) if is_disturbed else (1.0, 1.0)
    second = Interval(
        value=ratio * missed * (1 + of_theirs) / (1 + of_own),
        low=low * of_theirs,
        high=high * missed / of_own,
        process_error=math.log1p(margin) / HALF_INTERVAL,
    )
    speedup = second if is_disturbed else _spanning(paired, found)
    changed = msgspec.structs.replace(cell, speedup=speedup, fastest_calls=second)
    return _with_seconds(changed, paired.value / speedup.value)


def _without_odd_visits(calls: Calls) -> Calls:
    """Leave out the two fastest visits, at most a quarter of all.

    Where a third one agrees with them, that changes little. A processor of a shared host may be
    faster for a moment: on two quiet cores, one of 27 visits of eager PyTorch took 0.95 ms, the
    others 1.3 ms or more, and ONNX Runtime had no such visit.
    """
    odd = min(FEWEST_ALIKE - 1, len(calls) // 4)
    return sorted(calls, key=min)[odd:]


def _threads(settings: Mapping[str, str]) -> int:
    text = settings.get("threads", "")
    return max(int(text), 1) if text.isdecimal() and len(text) < MOST_DIGITS else 1


def _program(
    state: RunState, shape: Shape, arms: Collection[str], settings: Mapping[str, str]
) -> _Program:
    calls = [visit.seconds for arm in arms for _, visit in counted_visits(state, arm, shape)]
    # The typical share of a visit for which threads waited, as the sum over the threads.
    shares = [visit.conditions.queued_share or 0.0 for visit in _kept_visits(state, arms, shape)]
    waited = statistics.median(shares) if shares else 0.0
    return _Program(calls, least_share(calls, waited, _threads(settings)))


def _fastest_arm(
    state: RunState, measurements: Sequence[Measurement], baseline: str, shape: Shape
) -> str:
    """Return the arm with the fastest call; the baseline where no other arm has enough calls."""
    others = [each.arm for each in measurements if each.arm != baseline]
    visits = {arm: counted_visits(state, arm, shape) for arm in others}
    fastest = [(fastest_call([each.seconds for _, each in visits[arm]]), arm) for arm in others]
    return min(((seconds, arm) for seconds, arm in fastest if seconds), default=(0.0, baseline))[1]


def _missed_factor(state: RunState, arm: str, leader: str, shape: Shape) -> float:
    """Return by which factor the arm would be faster, had it been in all rounds of the leader.

    It joined late or left early, and the leader's fastest call of the rounds that both were in is
    slower than that of all rounds: their machine was busier.
    """
    if arm == leader:
        return 1.0
    rounds = {(repeat, visit.round) for repeat, visit in counted_visits(state, arm, shape)}
    led = counted_visits(state, leader, shape)
    shared = [visit.seconds for repeat, visit in led if (repeat, visit.round) in rounds]
    seen, best = fastest_call(shared), fastest_call([visit.seconds for _, visit in led])
    return max(seen / best, 1.0) if seen is not None and best is not None else 1.0


def _with_seconds(cell: Cell, factor: float) -> Cell:
    seconds = msgspec.structs.replace(
        cell.seconds,
        median=cell.seconds.median * factor,
        low=cell.seconds.low and cell.seconds.low * factor,
        high=cell.seconds.high and cell.seconds.high * factor,
    )
    throughput = msgspec.structs.replace(cell.throughput, value=cell.throughput.value / factor)
    tflops = cell.tflops and cell.tflops / factor
    return msgspec.structs.replace(cell, seconds=seconds, throughput=throughput, tflops=tflops)


def _is_disturbed(state: RunState, arms: Collection[str], shape: Shape) -> bool:
    visits = _kept_visits(state, arms, shape)
    return 2 * sum(visit.unfit is not None for visit in visits) > len(visits)


def _kept_visits(state: RunState, arms: Collection[str], shape: Shape) -> list[ConditionsRecorded]:
    return [
        visit
        for arm in arms
        for process in state.processes.get(arm, ())
        for visit in process.visit_conditions
        if visit.shape == shape and not visit.discarded
    ]


def difference_of_equals(state: RunState, arms: Collection[str], shape: Shape) -> float | None:
    """Return by which share the fastest calls of two equal arms may differ; None of no calls."""
    ours, theirs = (
        [visit.seconds for _, visit in counted_visits(state, arm, shape)] for arm in arms
    )
    found = _ratio_of_fastest(ours, theirs, 0.0, fewest=1)
    return found and max(1 / found.low, found.high) - 1


def _ratio_of_fastest(
    ours: Calls, theirs: Calls, margin: float, fewest: int = FEWEST_CALLS
) -> Estimate | None:
    """Return the speed-up of the fastest calls with its bounds; None of too few calls."""
    fastest, reference = fastest_call(ours, fewest), fastest_call(theirs, fewest)
    if fastest is None or reference is None:
        return None
    ratio = reference / fastest
    slower, faster = (
        math.exp(math.hypot(HALF_INTERVAL * fastest_call_error(calls), math.log1p(margin)))
        for calls in (theirs, ours)
    )
    return Estimate(ratio / slower, ratio, ratio * faster)


def _contradict(paired: Interval, fastest: Estimate, margin: float) -> bool:
    low, ratio, high = fastest
    if paired.low is None or paired.high is None:
        return False
    is_near = max(ratio / paired.value, paired.value / ratio) <= 1 + margin
    return not (is_near or (low <= paired.high and paired.low <= high))


def _spanning(paired: Interval, fastest: Estimate) -> Interval:
    """Return the ratio of the fastest calls with the interval that holds both estimates."""
    low, ratio, high = fastest
    return msgspec.structs.replace(
        paired,
        value=ratio,
        low=None if paired.low is None else min(paired.low, low),
        high=None if paired.high is None else max(paired.high, high),
    )


def compare_in_turns(
    rounds: Sequence[tuple[Sequence[float], Sequence[float]]], margin: float, *, busy: bool
) -> tuple[Interval, Doubt | None]:
    """Return the speed of the first of two programs over the second, by the seconds of their calls.

    Where the two estimates contradict each other, or the machine was `busy`, the speed-up is that
    of the fastest calls, and its interval spans both. The reason comes with it.
    """
    logs = [math.log(statistics.median(other) / statistics.median(own)) for own, other in rounds]
    paired = mean_of_samples([logs]).ratio
    ours, theirs = zip(*rounds, strict=True)
    found = _ratio_of_fastest(ours, theirs, margin)
    doubt: Doubt | None = "busy" if busy else None
    if found is None:
        return paired, doubt
    if doubt is None and _contradict(paired, found, margin):
        doubt = "contradictory"
    return (_spanning(paired, found) if doubt else paired), doubt


def _with_overall_speedup(measurement: Measurement) -> Measurement:
    """Return the measurement with the weighted geometric means of its cells."""
    cells = measurement.cells
    between = weighted_mean(
        ((cell.speedup.process_error or 0.0) ** 2, cell.weight) for cell in cells
    )
    speedup = Interval(
        value=_mean(cells, [cell.speedup.value for cell in cells]) or math.nan,
        low=_mean(cells, [cell.speedup.low for cell in cells]),
        high=_mean(cells, [cell.speedup.high for cell in cells]),
        process_error=math.sqrt(between),
    )
    return msgspec.structs.replace(measurement, speedup=speedup)


def _mean(cells: Sequence[Cell], values: Sequence[float | None]) -> float | None:
    """Return the geometric mean, with the weights of the cells; None without all values."""
    known = [value for value in values if value is not None]
    if len(known) < len(cells):
        return None
    logs = zip(map(math.log, known), (cell.weight for cell in cells), strict=True)
    return math.exp(weighted_mean(logs))


def fastest_call(visits: Sequence[Sequence[float]], fewest: int = FEWEST_CALLS) -> float | None:
    """Return the `FASTEST_CALL_SHARE` quantile of the seconds of all calls; None for few calls."""
    calls = sorted(second for each in visits for second in each)
    if len(calls) < fewest:
        return None
    return calls[math.ceil(FASTEST_CALL_SHARE * len(calls)) - 1]


def least_share(visits: Sequence[Sequence[float]], waited: float, threads: int) -> float:
    """Return the share of the fastest call that an undisturbed one takes at least.

    All calls may have been disturbed if the fastest ones of several visits do not agree: next to
    six busy processes the fastest calls of 2.5 ms took 12, 14 and 20 ms. The same holds if the
    typical call is as fast: next to a process that shares a processor with a thread, each of 18
    calls of 0.5 ms took 140 ms. Each call may then have waited for as long as all threads did,
    which is the share `waited` of the visit; where that is all of it, nothing is known. Calls that
    agree, but take longer than a wait, may all have had the same waits: next to four busy processes
    the fastest calls of 3 ms took 12.0 to 12.6 ms in five visits. They may have waited for as long
    as one of the threads did. A call of less than `SHORTEST_WAIT` did not wait.
    """
    fastest = fastest_call(visits, fewest=1)
    if fastest is None or fastest < SHORTEST_WAIT:
        return 1.0
    typical = statistics.median(second for each in visits for second in each)
    alike = sum(min(each) <= ALIKE * fastest for each in visits)
    if fastest < FASTER * typical and alike >= FEWEST_ALIKE:
        waited = 0.0 if fastest < TIME_SLICE else waited / threads
    return 1.0 - waited if waited < 1.0 - LEAST_SHARE else min(SHORTEST_CALL / fastest, LEAST_SHARE)


def fastest_call_error(visits: Sequence[Sequence[float]]) -> float:
    """Return the standard error of the logarithm of `fastest_call`, by resampling the visits."""
    import numpy as np

    counts = np.array([len(each) for each in visits])
    calls = np.concatenate([np.array(each) for each in visits])
    order = np.argsort(calls)
    step = max(1, len(order) // MOST_VALUES)
    owners = np.repeat(np.arange(len(visits)), counts)[order[::step]]
    stream = np.random.RandomState(0)
    drawn = stream.multinomial(len(visits), [1 / len(visits)] * len(visits), size=RESAMPLES)
    below = np.cumsum(drawn[:, owners], axis=1) * step
    first = np.argmax(below >= FASTEST_CALL_SHARE * (drawn @ counts)[:, np.newaxis], axis=1)
    return float(np.std(np.log(calls[order[::step]][first]), ddof=1))
