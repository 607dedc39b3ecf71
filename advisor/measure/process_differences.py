"""Add to each speed-up's interval what differs between equal processes. Pure.

The baseline and its duplicate run the same program in two processes. The 95 % bound of their
difference, the noise floor, is half of the interval of a ratio of two processes. It is added in
quadrature to the interval from the rounds within the processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from advisor.domain.measurement import Cell, Interval, Measurement, RaceResult
from advisor.statistics.intervals import HALF_INTERVAL
from advisor.statistics.replication import MIN_PROCESSES


def include_process_differences(
    measurement: Measurement, races: Sequence[RaceResult], baseline: str
) -> Measurement:
    """Return the measurement with intervals that no two equal workers contradict.

    Intervals over `MIN_PROCESSES` processes, which include the differences already, stay as they
    are, and so do those of the baseline and those at batch sizes without a noise floor.
    """
    if measurement.arm == baseline:
        return measurement
    floors = {
        race.batch_size: math.log1p(race.noise_floor)
        for race in races
        if race.noise_floor is not None
    }
    if not floors:
        return measurement
    # One process serves all batch sizes, so their differences do not average out.
    overall = math.sqrt(sum(floor**2 for floor in floors.values()) / len(floors))
    is_replicated = bool(measurement.cells) and all(map(_is_replicated, measurement.cells))
    return msgspec.structs.replace(
        measurement,
        speedup=measurement.speedup if is_replicated else _widen(measurement.speedup, overall),
        cells=tuple(
            cell
            if _is_replicated(cell) or cell.batch_size not in floors
            else msgspec.structs.replace(
                cell, speedup=_widen(cell.speedup, floors[cell.batch_size])
            )
            for cell in measurement.cells
        ),
    )


def _is_replicated(cell: Cell) -> bool:
    return cell.processes >= MIN_PROCESSES


def _widen(speedup: Interval, floor: float) -> Interval:
    """Return the interval with a log difference of up to `floor` between processes.

    An interval that has the difference already stays as it is.
    """
    if speedup.between is not None:
        return speedup
    low, high = speedup.low, speedup.high
    return Interval(
        value=speedup.value,
        low=low and speedup.value * math.exp(-math.hypot(math.log(speedup.value / low), floor)),
        high=high and speedup.value * math.exp(math.hypot(math.log(high / speedup.value), floor)),
        between=floor / HALF_INTERVAL,
    )
