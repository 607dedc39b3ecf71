"""Break-even and running costs of a workflow. Pure.

A request is one sample or prompt of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.domain.measurement import Cell, Measurement
from advisor.domain.recommendation import BreakEven, RunningCost
from probes.wire.shape import Shape

SECONDS_PER_HOUR = 3600


def find_break_even(candidate: Measurement, baseline: Measurement) -> tuple[BreakEven, ...]:
    """Return, for each shape, the requests after which the candidate's build has paid off.

    The ends are those of the paired speed-up's interval; null stands for never, or for an end that
    the data do not bound.
    """
    more_seconds = candidate.build_seconds.cold - baseline.build_seconds.cold
    incumbents = {cell.shape: cell for cell in baseline.cells}
    found = []
    for cell in candidate.cells:
        if cell.shape in incumbents:
            seconds = _request_seconds(incumbents[cell.shape])
            value, most, least = (
                None if speedup is None else break_even(more_seconds, seconds - seconds / speedup)
                for speedup in (cell.speedup.value, cell.speedup.low, cell.speedup.high)
            )
            found.append(BreakEven(shape=cell.shape, requests=value, low=least, high=most))
    return tuple(found)


def break_even(more_seconds: float, saved_seconds: float) -> float | None:
    """Return the requests that pay for a longer build if each saves time; None for never."""
    if more_seconds <= 0 and saved_seconds >= 0:
        return 0
    return math.ceil(more_seconds / saved_seconds) if saved_seconds > 0 else None


def first_to_serve(measurements: Sequence[Measurement], requests: int | None) -> dict[str, str]:
    """Return, by shape, the arm that serves the requests first, its cold build included."""
    if requests is None:
        return {}
    seconds: dict[Shape, dict[str, float]] = {}
    for measurement in measurements:
        for cell in measurement.cells:
            total = measurement.build_seconds.cold + requests * _request_seconds(cell)
            seconds.setdefault(cell.shape, {})[measurement.arm] = total
    return {
        str(shape): min(of_arms, key=lambda arm: (of_arms[arm], arm))
        for shape, of_arms in sorted(seconds.items())
    }


def price(
    measurements: Sequence[Measurement], price_per_hour: float | None
) -> tuple[RunningCost, ...]:
    """Return the price of a million tokens, or of a thousand requests of a forward pass."""
    if price_per_hour is None:
        return ()
    return tuple(
        _running_cost(measurement.arm, cell, price_per_hour)
        for measurement in measurements
        for cell in measurement.cells
    )


def _running_cost(arm: str, cell: Cell, price_per_hour: float) -> RunningCost:
    makes_tokens = cell.throughput.unit == "tokens/s"
    units = 1_000_000 if makes_tokens else 1_000
    return RunningCost(
        arm=arm,
        shape=cell.shape,
        value=price_per_hour / SECONDS_PER_HOUR * units / cell.throughput.value,
        unit="million tokens" if makes_tokens else "thousand requests",
    )


def _request_seconds(cell: Cell) -> float:
    return cell.seconds.median / cell.shape.batch_size
