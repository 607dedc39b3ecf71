"""What arms cost: the requests that repay a build, and the price of an hour of calls."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.decide.serving import SECONDS_PER_HOUR
from advisor.domain.measurement import Measurement
from advisor.domain.recommendation import BreakEven, RunningCost
from probes.shape import Shape


def find_break_even(candidate: Measurement, baseline: Measurement) -> tuple[BreakEven, ...]:
    """Return, for each shape, the requests after which the candidate's build has paid off.

    The ends are those of the intervals of the paired speed-up and of the baseline's call; null
    stands for never, or for an end that the data do not bound.
    """
    more_seconds = candidate.build_seconds.cold - baseline.build_seconds.cold
    incumbents = {cell.shape: cell for cell in baseline.cells}
    found = []
    for cell in candidate.cells:
        size = cell.shape.batch_size
        if cell.shape in incumbents:
            known, speedup = incumbents[cell.shape].seconds, cell.speedup
            ends = (
                (speedup.value, known.median),
                (speedup.low, known.low or known.median),
                (speedup.high, known.high or known.median),
            )
            value, most, least = (
                break_even(more_seconds, seconds / size * (1 - 1 / gain)) if gain else None
                for gain, seconds in ends
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
            each_seconds = cell.seconds.median / cell.shape.batch_size
            total = measurement.build_seconds.cold + requests * each_seconds
            seconds.setdefault(cell.shape, {})[measurement.arm] = total
    return {
        str(shape): min(of_arms, key=lambda arm: (of_arms[arm], arm))
        for shape, of_arms in sorted(seconds.items())
    }


def price(
    measurements: Sequence[Measurement], price_per_hour: float | None
) -> tuple[RunningCost, ...]:
    if price_per_hour is None:
        return ()
    return tuple(
        RunningCost(
            arm=measurement.arm,
            shape=cell.shape,
            value=price_per_hour
            / SECONDS_PER_HOUR
            * (1_000_000 if makes_tokens else 1_000)
            / cell.throughput.value,
            unit="million tokens" if makes_tokens else "thousand requests",
        )
        for measurement in measurements
        for cell in measurement.cells
        for makes_tokens in [cell.throughput.unit == "tokens/s"]
    )
