"""Combine the results of several lengths into the results of their mix. Pure.

The speed-up of an arm is the geometric mean of its speed-ups, weighted by the shares. The lengths
were measured in different processes, so the variances of the logarithms add up with the squares of
the shares. Other figures are the worst of the lengths: a server of the mix has to build for all of
them, to hold the longest, and to be correct at each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from advisor.domain.accuracy import TrainedLoss
from advisor.domain.interval import Interval
from advisor.domain.measurement import (
    CallSeconds,
    Cell,
    GenerationMetrics,
    Measurement,
    MemoryBytes,
    Throughput,
    VisitCounts,
)
from advisor.domain.results import VERDICTS_BY_STRENGTH, RaceResult, Results, SustainedCheck
from advisor.measure.new_shapes import rate_new_shapes
from advisor.recommendation.speedup_draws import includes_processes

#: Classes of what is lost of a trained model, from the best; none is known at first.
LOSS_CLASSES = ("A", "B", "C", "worse", None)

Number = TypeVar("Number", int, float)


class LengthResults(NamedTuple):
    """The results at one length and their share of the mix."""

    share: float
    results: Results


class ArmAtLength(NamedTuple):
    """An arm at one length and the share of that length."""

    share: float
    measurement: Measurement


def mix_results(parts: Sequence[LengthResults]) -> Results:
    """Return the results of the mix; the shares may have any sum.

    Lengths without a share do not count. Arms that were not measured at a length are left out.
    A single length keeps its own results.
    """
    counted = [part for part in parts if part.share > 0]
    if len(counted) == 1:
        return counted[0].results
    total = math.fsum(part.share for part in counted)
    counted = [LengthResults(part.share / total, part.results) for part in counted]
    each = [part.results for part in counted]
    floors = [one.noise_floor for one in each]
    return Results(
        baseline=each[0].baseline,
        measurements=tuple(_mix_arms(counted)),
        races=_mix_races(each),
        noise_floor=_largest(floors),
        # The rounds of different lengths are not paired, so ties are not found.
        log_speedups={},
        visits=_sum_visits(one.visits for one in each),
        sustained=_disagreeing(each),
        peaks=each[-1].peaks,
        repeats=min(one.repeats for one in each),
        stopped_builds=tuple(
            {stop.arm: stop for one in each for stop in one.stopped_builds}.values()
        ),
        inputs=each[0].inputs,
    )


def _mix_arms(parts: Sequence[LengthResults]) -> Iterable[Measurement]:
    """Return the arms that every length has, in the order of the first one."""
    by_length = [{one.arm: one for one in part.results.measurements} for part in parts]
    for first in parts[0].results.measurements:
        found = [known.get(first.arm) for known in by_length]
        shared = [
            ArmAtLength(part.share, one)
            for part, one in zip(parts, found, strict=True)
            if one is not None
        ]
        if len(shared) == len(parts):
            yield _mix_arm(shared)


def _mix_arm(parts: Sequence[ArmAtLength]) -> Measurement:
    each = [part.measurement for part in parts]
    speedup = mix_intervals([(part.share, part.measurement.speedup) for part in parts])
    tried = tuple(result for one in each for result in one.new_shape_results)
    # A length whose interval has no differences between processes leaves that of the mix without.
    knows_processes = all(includes_processes(one) for one in each)
    least_engaged = min(each, key=lambda one: one.engaged_share)
    return Measurement(
        arm=each[0].arm,
        workflow=each[0].workflow,
        option=each[0].option,
        cells=_mix_cells(parts),
        speedup=speedup
        if knows_processes
        else msgspec.structs.replace(speedup, process_error=None),
        build_seconds=max((one.build_seconds for one in each), key=lambda build: build.cold),
        memory_bytes=_largest_memory([one.memory_bytes for one in each]),
        weight_bytes=_largest([one.weight_bytes for one in each]),
        correctness=tuple(checked for one in each for checked in one.correctness),
        trained_loss=_worst_loss([one.trained_loss for one in each]),
        engaged_share=least_engaged.engaged_share,
        engagement=least_engaged.engagement,
        versions=each[-1].versions,
        settings=each[-1].settings,
        facts=each[-1].facts,
        visits=_sum_visits(one.visits for one in each),
        steady=all(one.steady for one in each),
        new_shape_results=tried,
        new_shapes=rate_new_shapes(tried),
        new_shapes_complete=all(one.new_shapes_complete for one in each),
    )


def mix_intervals(parts: Sequence[tuple[float, Interval]]) -> Interval:
    """Return the weighted geometric mean of independent ratios; the shares sum to 1.

    Each half of the interval is the root of the sum of the squared halves times the shares, as
    logarithms. A bound is null where one of the ratios has none.
    """
    log = math.fsum(share * math.log(one.value) for share, one in parts)
    lower = _root([_half(share, one.value, one.low) for share, one in parts])
    upper = _root([_half(share, one.value, one.high) for share, one in parts])
    known = [(share, one.process_error) for share, one in parts if one.process_error is not None]
    return Interval(
        value=math.exp(log),
        low=None if lower is None else math.exp(log - lower),
        high=None if upper is None else math.exp(log + upper),
        process_error=math.hypot(*(share * error for share, error in known)) if known else None,
    )


def _half(share: float, value: float, bound: float | None) -> float | None:
    """Return the part of one length in half of an interval; None without a bound."""
    return share * abs(math.log(value / bound)) if bound else None


def _mix_cells(parts: Sequence[ArmAtLength]) -> tuple[Cell, ...]:
    """Return the cells of the batch sizes that every length has."""
    by_length = [{cell.batch_size: cell for cell in part.measurement.cells} for part in parts]
    sizes = [size for size in by_length[0] if all(size in known for known in by_length)]
    return tuple(
        _mix_cell([(part.share, known[size]) for part, known in zip(parts, by_length, strict=True)])
        for size in sizes
    )


def _mix_cell(parts: Sequence[tuple[float, Cell]]) -> Cell:
    """Return a cell with the expected seconds of a call of the mix."""
    each = [cell for _, cell in parts]
    seconds = _mix_seconds([(share, cell.seconds) for share, cell in parts])
    units = math.fsum(share * cell.throughput.value * cell.seconds.median for share, cell in parts)
    return Cell(
        batch_size=each[0].batch_size,
        seconds=seconds,
        throughput=Throughput(value=units / seconds.median, unit=each[0].throughput.unit),
        speedup=mix_intervals([(share, cell.speedup) for share, cell in parts]),
        tflops=None,
        processes=min(cell.processes for cell in each),
        process_variation=_largest([cell.process_variation for cell in each]),
        shift=max((cell.shift for cell in each), key=abs),
        generation=_worst_generation([cell.generation for cell in each]),
    )


def _mix_seconds(parts: Sequence[tuple[float, CallSeconds]]) -> CallSeconds:
    """Return the mean seconds of a call, weighted by the shares."""
    mean = math.fsum(share * one.median for share, one in parts)
    lower = _root([one.low and share * (one.median - one.low) for share, one in parts])
    upper = _root([one.high and share * (one.high - one.median) for share, one in parts])
    return CallSeconds(
        median=mean,
        low=None if lower is None else max(mean - lower, 0.0),
        high=None if upper is None else mean + upper,
        samples=sum(one.samples for _, one in parts),
    )


def _root(halves: Sequence[float | None]) -> float | None:
    """Return the root of the sum of squares; None where a half is missing."""
    known = [half for half in halves if half is not None]
    return math.hypot(*known) if len(known) == len(halves) else None


def _worst_generation(found: Sequence[GenerationMetrics | None]) -> GenerationMetrics | None:
    """Return the largest latencies and the smallest speed of a user; None without all of them."""
    known = [one for one in found if one is not None]
    if len(known) != len(found):
        return None
    return GenerationMetrics(
        ttft_seconds=_largest([one.ttft_seconds for one in known]),
        itl_seconds=_largest([one.itl_seconds for one in known]),
        tokens_per_second_per_user=_extreme(min, [one.tokens_per_second_per_user for one in known]),
        cache_bytes=_largest([one.cache_bytes for one in known]),
        mbu=None,
        mfu=None,
        method=known[-1].method,
    )


def _largest_memory(found: Sequence[MemoryBytes]) -> MemoryBytes:
    """Return the peaks of the length that needs most; the first without a peak where one is."""
    unknown = next((one for one in found if one.peak is None), None)
    return unknown or max(found, key=lambda one: one.peak or 0)


def _worst_loss(found: Sequence[TrainedLoss | None]) -> TrainedLoss | None:
    """Return the worst loss; None where one length has none."""
    known = [one for one in found if one is not None]
    if len(known) != len(found):
        return None
    return max(known, key=lambda one: LOSS_CLASSES.index(one.loss_class))


def _mix_races(each: Sequence[Results]) -> tuple[RaceResult, ...]:
    """Return, for each batch size that raced at every length, the race with the weakest verdict."""
    by_length: list[Mapping[int, RaceResult]] = [
        {race.batch_size: race for race in one.races} for one in each
    ]
    mixed = []
    for size in by_length[0]:
        races = [known[size] for known in by_length if size in known]
        if len(races) == len(each):
            weakest = max(races, key=lambda race: VERDICTS_BY_STRENGTH.index(race.verdict))
            floor = _largest([race.noise_floor for race in races])
            rounds = min(race.rounds for race in races)
            mixed.append(msgspec.structs.replace(weakest, noise_floor=floor, rounds=rounds))
    return tuple(mixed)


def _disagreeing(each: Sequence[Results]) -> SustainedCheck | None:
    """Return a check without pauses that contradicts its race; agreeing ones are left out."""
    checks = [one.sustained for one in each if one.sustained is not None]
    return next((check for check in checks if not check.agrees), None)


def _sum_visits(counts: Iterable[VisitCounts]) -> VisitCounts:
    found = list(counts)
    return VisitCounts(
        made=sum(one.made for one in found),
        discarded=sum(one.discarded for one in found),
        unfit=sum(one.unfit for one in found),
        stalled_calls=sum(one.stalled_calls for one in found),
    )


def _largest(values: Sequence[Number | None]) -> Number | None:
    return _extreme(max, values)


def _extreme(
    choose: Callable[[Sequence[Number]], Number], values: Sequence[Number | None]
) -> Number | None:
    """Return the extreme of the values; None where one is missing."""
    known = [value for value in values if value is not None]
    return choose(known) if len(known) == len(values) else None
