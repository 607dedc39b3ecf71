"""A second estimate of each speed-up, from the fastest calls of all visits. Pure.

Other work on the machine slows most calls and hardly the fastest ones. On two cores, eager PyTorch
against ONNX Runtime, the paired rounds gave 3.1x when quiet and 27x beside two busy processes, the
fastest calls 2.8x and 3.4x.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

import msgspec

from advisor.domain.interval import Interval
from advisor.domain.measurement import Cell, Measurement
from advisor.domain.run_state import RunState
from advisor.measure.rounds import counted_visits
from advisor.statistics.intervals import HALF_INTERVAL
from advisor.statistics.undisturbed import fastest_call, fastest_call_error

#: Seconds of the calls of each visit.
Calls = Sequence[Sequence[float]]


def reconcile(
    state: RunState, measurements: Sequence[Measurement], baseline: str, margin: float
) -> Iterator[Measurement]:
    """Yield the measurements with the second estimate where it contradicts the paired rounds.

    The speed-up is then that of the fastest calls, and its interval spans both. `margin` is the
    share by which typical and fastest calls may differ on a quiet machine.
    """
    sizes = {cell.batch_size for entry in measurements for cell in entry.cells}
    references = {size: _calls(state, baseline, size) for size in sizes}
    for entry in measurements:
        if entry.arm == baseline:
            yield entry
            continue
        cells = tuple(
            _reconcile(
                cell,
                _calls(state, entry.arm, cell.batch_size),
                references[cell.batch_size],
                margin,
            )
            for cell in entry.cells
        )
        is_changed = any(cell.fastest_calls for cell in cells)
        yield _with_cells(entry, cells) if is_changed else entry


def _calls(state: RunState, arm: str, batch_size: int) -> Calls:
    return [visit.seconds for _, visit in counted_visits(state, arm, batch_size)]


def _with_cells(measurement: Measurement, cells: tuple[Cell, ...]) -> Measurement:
    """Return the measurement with the geometric means of its cells."""
    low, high = (
        statistics.geometric_mean(bounds) if None not in bounds else None
        for bounds in zip(*((cell.speedup.low, cell.speedup.high) for cell in cells), strict=True)
    )
    speedup = Interval(
        value=statistics.geometric_mean(cell.speedup.value for cell in cells),
        low=low,
        high=high,
        process_error=measurement.speedup.process_error,
    )
    return msgspec.structs.replace(measurement, cells=cells, speedup=speedup)


def _reconcile(cell: Cell, ours: Calls, theirs: Calls, margin: float) -> Cell:
    fastest, reference = fastest_call(ours), fastest_call(theirs)
    paired = cell.speedup
    if fastest is None or reference is None or paired.low is None or paired.high is None:
        return cell
    ratio = reference / fastest
    if max(ratio / paired.value, paired.value / ratio) <= 1 + margin:
        return cell
    error = math.hypot(
        fastest_call_error(ours), fastest_call_error(theirs), paired.process_error or 0.0
    )
    spread = math.exp(HALF_INTERVAL * error)
    second = Interval(value=ratio, low=ratio / spread, high=ratio * spread)
    if ratio / spread <= paired.high * (1 + margin) and paired.low <= ratio * spread * (1 + margin):
        return cell
    speedup = Interval(
        value=ratio,
        low=min(paired.low, ratio / spread),
        high=max(paired.high, ratio * spread),
        process_error=paired.process_error,
    )
    factor = paired.value / ratio
    seconds = msgspec.structs.replace(cell.seconds, median=cell.seconds.median * factor)
    return msgspec.structs.replace(cell, speedup=speedup, seconds=seconds, fastest_calls=second)
