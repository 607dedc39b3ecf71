"""A second estimate of each speed-up, from the fastest calls of all visits. Pure.

Other work on the machine slows most calls and hardly the fastest ones. On two cores, eager PyTorch
against ONNX Runtime, the paired rounds gave 3.1x when quiet and 27x beside two busy processes, the
fastest calls 2.8x and 3.4x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from advisor.domain.interval import Interval
from advisor.domain.measurement import Cell, Measurement
from advisor.domain.run_state import RunState
from advisor.measure.rounds import counted_visits
from advisor.statistics.intervals import HALF_INTERVAL
from advisor.statistics.undisturbed import fastest_call, fastest_call_error
from probes.wire.shape import Shape

#: Seconds of the calls of each visit.
Calls = Sequence[Sequence[float]]


def reconcile(
    state: RunState, measurements: Sequence[Measurement], baseline: str, margin: float
) -> Iterator[Measurement]:
    """Yield the measurements with the second estimate where it contradicts the paired rounds.

    The speed-up is then that of the fastest calls, and its interval spans both. `margin` is the
    share by which typical and fastest calls may differ on a quiet machine.
    """
    shapes = {cell.shape for entry in measurements for cell in entry.cells}
    references = {shape: _calls(state, baseline, shape) for shape in shapes}
    for entry in measurements:
        if entry.arm == baseline:
            yield entry
            continue
        cells = tuple(
            _reconcile(
                cell,
                _calls(state, entry.arm, cell.shape),
                references[cell.shape],
                margin,
            )
            for cell in entry.cells
        )
        is_changed = any(cell.fastest_calls for cell in cells)
        yield _with_cells(entry, cells) if is_changed else entry


def _calls(state: RunState, arm: str, shape: Shape) -> Calls:
    return [visit.seconds for _, visit in counted_visits(state, arm, shape)]


def _with_cells(measurement: Measurement, cells: tuple[Cell, ...]) -> Measurement:
    """Return the measurement with the weighted geometric means of its cells."""
    speedup = Interval(
        value=_mean(cells, [cell.speedup.value for cell in cells]) or math.nan,
        low=_mean(cells, [cell.speedup.low for cell in cells]),
        high=_mean(cells, [cell.speedup.high for cell in cells]),
        process_error=measurement.speedup.process_error,
    )
    return msgspec.structs.replace(measurement, cells=cells, speedup=speedup)


def _mean(cells: Sequence[Cell], values: Sequence[float | None]) -> float | None:
    """Return the geometric mean, with the weights of the cells; None without all values."""
    known = [value for value in values if value is not None]
    if len(known) < len(cells):
        return None
    whole = math.fsum(cell.weight for cell in cells)
    logs = (cell.weight * math.log(value) / whole for cell, value in zip(cells, known, strict=True))
    return math.exp(math.fsum(logs))


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
