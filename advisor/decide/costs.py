"""Break-even, running costs, memory and energy of a workflow. Pure.

A request is one sample or prompt of a batch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from advisor.domain.measurement import Cell, Measurement
from advisor.domain.recommendation import BreakEven, EnergyUse, HorizonBest, MemoryFit, RunningCost
from advisor.domain.results import SustainedCheck

#: Numbers of requests for which the fastest arm, including its cold build, is reported.
HORIZONS = tuple(10**power for power in range(2, 8))
SECONDS_PER_HOUR = 3600
#: Share of the device's memory above which memory may have limited a build: autotuning allocates
#: candidates next to the model.
SHORT_OF_MEMORY = 0.8
REQUESTS_OF_ENERGY = 1000


def find_break_even(candidate: Measurement, baseline: Measurement) -> tuple[BreakEven, ...]:
    """Return, for each batch size, the requests after which the candidate's build has paid off.

    The ends are those of the paired speed-up's interval; null stands for never, or for an end that
    the data do not bound.
    """
    incumbents = {cell.shape: cell for cell in baseline.cells}
    found = []
    for cell in candidate.cells:
        if cell.shape not in incumbents:
            continue
        seconds = _request_seconds(incumbents[cell.shape])
        value, most, least = (
            None if speedup is None else _requests(candidate, baseline, seconds, speedup)
            for speedup in (cell.speedup.value, cell.speedup.low, cell.speedup.high)
        )
        found.append(BreakEven(shape=cell.shape, requests=value, low=least, high=most))
    return tuple(found)


def _requests(
    candidate: Measurement, baseline: Measurement, seconds: float, speedup: float
) -> float | None:
    requests = break_even(
        Cost(candidate.build_seconds.cold, seconds / speedup),
        Cost(baseline.build_seconds.cold, seconds),
    )
    return math.ceil(requests) if math.isfinite(requests) else None


def worst_break_even(found: Sequence[BreakEven]) -> float | None:
    """Return the requests that suffice at every batch size; None if never or unknown."""
    requests = [entry.requests for entry in found]
    if not requests or None in requests:
        return None
    return float(max(each for each in requests if each is not None))


def find_horizons(
    measurements: Sequence[Measurement], requests: int | None
) -> tuple[HorizonBest, ...]:
    """Return, for each batch size and number of requests, the arm that serves them first.

    The time of its cold build counts.
    """
    sizes = sorted({cell.shape for measurement in measurements for cell in measurement.cells})
    horizons = sorted({*HORIZONS, *([requests] if requests else [])})
    table = []
    for shape in sizes:
        costs = {
            measurement.arm: Cost(measurement.build_seconds.cold, _request_seconds(cell))
            for measurement in measurements
            for cell in measurement.cells
            if cell.shape == shape
        }
        for horizon in horizons:
            best = min(costs, key=lambda arm: (costs[arm].total(horizon), arm))
            table.append(
                HorizonBest(
                    shape=shape, requests=horizon, arm=best, seconds=costs[best].total(horizon)
                )
            )
    return tuple(table)


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


def fit_memory(
    measurements: Sequence[Measurement], device_bytes: int | None
) -> tuple[MemoryFit, ...]:
    """Return each arm's peak memory, builds included, as a share of the device's memory."""
    if device_bytes is None:
        return ()
    peaks = {measurement.arm: measurement.memory_bytes.peak for measurement in measurements}
    return tuple(
        MemoryFit(
            arm=arm,
            peak_bytes=peak,
            device_bytes=device_bytes,
            share=peak / device_bytes,
            short=peak / device_bytes > SHORT_OF_MEMORY,
        )
        for arm, peak in peaks.items()
        if peak is not None
    )


def energy_use(check: SustainedCheck | None) -> tuple[EnergyUse, ...]:
    """Return the energy of the arms that were called without a pause, where it was counted."""
    if check is None:
        return ()
    return tuple(
        EnergyUse(
            arm=arm,
            shape=check.shape,
            joules_per_call=joules,
            watt_hours=joules / check.shape.batch_size * REQUESTS_OF_ENERGY / SECONDS_PER_HOUR,
        )
        for arm, joules in check.joules_per_call.items()
        if joules is not None
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


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds until the first request can be served, and seconds of each request."""

    build_seconds: float
    request_seconds: float

    def total(self, requests: float) -> float:
        """Return the seconds until `requests` have been served."""
        return self.build_seconds + requests * self.request_seconds


def break_even(candidate: Cost, incumbent: Cost) -> float:
    """Return the requests after which the candidate has paid for its build.

    Infinite if it never does, 0 if it does at once.
    """
    if (
        candidate.build_seconds <= incumbent.build_seconds
        and candidate.request_seconds <= incumbent.request_seconds
    ):
        return 0.0
    if candidate.request_seconds >= incumbent.request_seconds:
        return math.inf
    return (candidate.build_seconds - incumbent.build_seconds) / (
        incumbent.request_seconds - candidate.request_seconds
    )


def most_build_seconds(incumbent: Cost, fastest_request_seconds: float, requests: float) -> float:
    """Return the seconds beyond which a build cannot pay for itself within `requests`.

    Each request takes at least `fastest_request_seconds`.
    """
    return incumbent.total(requests) - requests * fastest_request_seconds
