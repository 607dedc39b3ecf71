"""Draws of the measured speed-ups from the joint distribution of their errors.

All speed-ups share the baseline, so their errors are correlated. The draws come from a seed and
from NumPy's `RandomState`, whose streams are frozen, so the same measurements give the same draws.
"""

from __future__ import annotations

import functools
import math
import statistics
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from advisor.decide.intervals import HALF_INTERVAL, MIN_PROCESSES, Array, np
from advisor.domain.measurement import Interval, Measurement
from advisor.domain.results import Results

DRAW_COUNT = 4000
#: Standard error of a logarithm whose interval has no bound.
UNBOUNDED = math.log(2)
#: Part of the variance of a log speed-up that comes from the baseline where both are as noisy.
BASELINE_PART = 0.5


class SpeedupErrors(NamedTuple):
    """The measured log speed-ups of several arms, with their standard errors."""

    arms: tuple[str, ...]
    #: Log speed-ups by arm and shape; means over the shapes if the arms have different ones.
    logs: tuple[tuple[float, ...], ...]
    #: Standard errors within the processes, by arm and shape.
    within: tuple[tuple[float, ...], ...]
    #: Bounds of the logarithm where typical and fastest calls contradict each other, by arm and
    #: shape: one of the two is wrong. None where the errors are those of a normal distribution.
    ranges: tuple[tuple[tuple[float, float] | None, ...], ...]
    #: Standard errors between processes, by arm.
    between: tuple[float, ...]
    #: Weights of the shapes; their mean is 1.
    weights: tuple[float, ...]


def speedup_errors(results: Results, arms: Sequence[str]) -> SpeedupErrors:
    """Return the speed-ups of `arms`; that of the baseline has no error."""
    measurements = [results.by_arm[arm] for arm in arms]
    # Each comes with whether typical and fastest calls contradict each other.
    speedups = [
        [(cell.speedup, cell.fastest_calls is not None) for cell in measured.cells]
        for measured in measurements
    ]
    weights = [cell.weight for cell in measurements[0].cells]
    if not weights or len({tuple(cell.shape for cell in one.cells) for one in measurements}) > 1:
        speedups = [
            [(measured.speedup, any(is_contradicted for _, is_contradicted in each))]
            for measured, each in zip(measurements, speedups, strict=True)
        ]
        weights = [1.0]
    is_exact = [arm == results.baseline for arm in arms]
    return SpeedupErrors(
        arms=tuple(arms),
        logs=tuple(tuple(math.log(one.value) for one, _ in each) for each in speedups),
        within=tuple(
            tuple(0.0 if exact else _standard_error(one) for one, _ in each)
            for exact, each in zip(is_exact, speedups, strict=True)
        ),
        ranges=tuple(
            tuple(_log_bounds(one) if is_contradicted else None for one, is_contradicted in each)
            for each in speedups
        ),
        between=tuple(
            0.0 if exact else _process_error(measured)
            for exact, measured in zip(is_exact, measurements, strict=True)
        ),
        weights=tuple(len(weights) * each / sum(weights) for each in weights),
    )


@functools.lru_cache(maxsize=16)
def draw_log_speedups(
    errors: SpeedupErrors, seed: int, scale: float = 1.0, exact: str | None = None
) -> Array:
    """Return mean log speed-ups over the shapes, `(draws, arms) float64`, not to be changed.

    They are normal. Where two estimates contradict each other, either bound is as likely: if the
    arm leads at one bound and loses at the other, no choice is probable.

    `scale` scales the errors, as more repetitions would. With `exact`, the name of an arm, its
    error is left out, and the other arms share none. The draws are kept, because a change of a
    weight does not change them. Those of an arm do not depend on which other arms there are,
    except for the part of the error that they share.
    """
    logs, weights = np.array(errors.logs), np.array(errors.weights)
    shapes = logs.shape[1]
    # The last column is the difference between processes.
    totals = np.column_stack([np.array(errors.within), np.array(errors.between)])
    normals = np.stack([_normals(seed, arm, shapes + 1) for arm in errors.arms], axis=1)
    if exact is None:
        uncertain = np.where(totals > 0, totals, np.inf).min(axis=0)
        shared = np.where(np.isfinite(uncertain), BASELINE_PART * uncertain**2, 0.0)
    else:
        totals[errors.arms.index(exact)] = 0.0
        shared = np.zeros(shapes + 1)
    common = _normals(seed, "", shapes + 1)[:, np.newaxis] * np.sqrt(shared)
    own = normals * np.sqrt(np.maximum(totals**2 - shared, 0.0))
    noise = np.where(totals > 0, common, 0.0) + own
    errors_within = noise[..., :-1]
    for arm, ranges in enumerate(errors.ranges):
        for shape, bounds in enumerate(ranges):
            if bounds is not None and totals[arm, shape] > 0:
                # At all shapes the same one of the two estimates is right.
                drawn_bounds = np.where(normals[:, arm, 0] < 0, *bounds)
                errors_within[:, arm, shape] = drawn_bounds - logs[arm, shape]
    within = (weights * errors_within).mean(axis=2)
    drawn: Array = (weights * logs).mean(axis=1) + scale * (within + noise[..., -1])
    drawn.setflags(write=False)
    return drawn


def _normals(seed: int, arm: str, columns: int) -> Array:
    """Return the normal deviates of an arm, `(draws, columns)`."""
    stream = np.random.RandomState(zlib.crc32(f"{seed}/{arm}".encode()))
    return stream.standard_normal((DRAW_COUNT, columns))


def is_shown_faster(
    one: Measurement, other: Measurement, baseline: str, probability: float
) -> bool:
    """Check whether an arm is faster than another with this probability.

    As in the draws, they share a part of the smaller error, that of the baseline.
    """
    lead = math.log(one.speedup.value / other.speedup.value)
    variances = [
        0.0
        if each.arm == baseline
        else _standard_error(each.speedup) ** 2 + _process_error(each) ** 2
        for each in (one, other)
    ]
    error = math.sqrt(sum(variances) - 2 * BASELINE_PART * min(variances))
    return lead > statistics.NormalDist().inv_cdf(probability) * error


def _log_bounds(speedup: Interval) -> tuple[float, float] | None:
    if not (speedup.low and speedup.high):
        return None
    return math.log(speedup.low), math.log(speedup.high)


def _standard_error(speedup: Interval) -> float:
    """Return the standard error of a log speed-up within the processes, from its 95 % interval."""
    low, high = speedup.low, speedup.high
    if low is None or high is None or low <= 0:
        return UNBOUNDED
    total = math.log(high / low) / (2 * HALF_INTERVAL)
    return math.sqrt(max(total**2 - (speedup.process_error or 0.0) ** 2, 0.0))


def _process_error(measurement: Measurement) -> float:
    """Return the standard error of the log speed-up from differences between processes.

    Zero where the draws within processes include it.
    """
    between, cells = measurement.speedup.process_error, measurement.cells
    if between is not None:
        return between
    if cells and all(cell.processes >= MIN_PROCESSES for cell in cells):
        return 0.0
    # Two processes differ by the square root of two times what one of them does.
    return math.sqrt(2) * UNBOUNDED
