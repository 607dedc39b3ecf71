"""Measure how far outputs are from their reference. Arrays are numpy's; large ones are sampled."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from probes.arrays import np

#: The number of elements that are compared. A larger output is sampled with a fixed stride.
MAX_ELEMENTS = 1 << 20
#: The least number of compared elements for which a row has an error of its own.
MIN_ROW_ELEMENTS = 16
#: Elements are grouped by magnitude: from a tenth of the output's size on, from a hundredth on, and
#: so on. Smaller ones are in no group: in float32 they may be rounding of others.
MAGNITUDES = 6
NO_MAGNITUDES = (0.0,) * MAGNITUDES


@dataclasses.dataclass(frozen=True)
class Deviation:
    """How far one output is from its reference, in several measures."""

    #: Root mean square of the difference, in the unit of the output.
    rmse: float = 0.0
    #: Largest root mean square of the difference in a row. It is a share of the row's RMS, or of
    #: the output's size where that is larger.
    row: float = 0.0
    #: Largest absolute difference of an element.
    worst: float = 0.0
    #: Share of the elements that are not the same.
    differing: float = 0.0
    #: Largest root mean square of the difference in an item of the batch, in the output's unit.
    item: float = 0.0
    #: Median of the absolute differences, in the output's unit. Where rounding turns a choice, such
    #: as that of an expert, few elements change by much, and the median hardly changes.
    typical: float = 0.0
    #: Root mean square of the difference by the magnitude that the element has in the reference,
    #: large ones first, in the output's unit.
    by_magnitude: tuple[float, ...] = NO_MAGNITUDES

    def or_larger(self, other: Deviation) -> Deviation:
        others = dataclasses.asdict(other)
        larger = {name: max(mine, others[name]) for name, mine in dataclasses.asdict(self).items()}
        groups = zip(self.by_magnitude, other.by_magnitude, strict=True)
        return Deviation(**larger | {"by_magnitude": tuple(map(max, groups))})

    @property
    def is_finite(self) -> bool:
        """False if the output has NaN, infinity, or -inf at other places than the reference."""
        return math.isfinite(self.rmse) and math.isfinite(self.worst)


def stride_of(size: int) -> int:
    """Return a step that is coprime to the size, so that every row and every column is met."""
    if size <= MAX_ELEMENTS:
        return 1
    stride = size // MAX_ELEMENTS + 1
    while math.gcd(stride, size) > 1:
        stride += 1
    return stride


def sample(array: Any) -> Any:
    """Return at most `MAX_ELEMENTS` values of `array` as `(elements,) float64`."""
    flat = array.reshape(-1)
    return flat[:: stride_of(flat.size)].astype("float64")


def error_and_scale(array: Any, target: Any) -> tuple[float, float]:
    """Return root mean squares of difference and target; of integers the differing share and 1."""
    values, wanted = sample(array), sample(target)
    if target.dtype.kind != "f":
        return float((values != wanted).mean()) if wanted.size else 0.0, 1.0
    return root_mean_square(subtract(values, wanted)), root_mean_square(unmasked(wanted))


def root_mean_square(array: Any) -> float:
    """Return the root mean square of float64 values; 0 for an empty array."""
    return math.sqrt(float((array * array).mean())) if array.size else 0.0


def row_length(shape: Sequence[int]) -> int:
    """Return the elements of the last dimension, or of several if it is short."""
    stride, length = stride_of(math.prod(shape)), 1
    for dimension in reversed(shape):
        if length >= MIN_ROW_ELEMENTS * stride:
            return length
        length *= dimension
    return max(length, 1)


def _by_group(values: Any, shape: Sequence[int], length: int) -> Any:
    """Return the root mean square of `values` by group of `length` elements of the whole output.

    `values` is a sample, `(elements,) float64`, of an output with `shape`. The result has a value
    for each group that the sample meets, `(groups,) float64`.
    """
    if not values.size:
        return values
    groups: Any = np.arange(values.size) * stride_of(math.prod(shape)) // length
    starts = np.concatenate([[0], np.flatnonzero(np.diff(groups)) + 1])
    counts = np.diff(starts, append=values.size)
    return np.sqrt(np.add.reduceat(values * values, starts) / counts)


def by_magnitude(values: Any, target: Any, scale: float) -> tuple[list[int], list[float]]:
    """Return how many elements of `target` each magnitude has, and the RMS of their `values`.

    Both arguments are `(elements,) float64` without mask values. The RMS of no elements is 0.
    """
    with np.errstate(divide="ignore"):
        groups = np.clip(-np.log10(abs(target) / scale), 0, MAGNITUDES).astype("int64")
    counts = np.bincount(groups, minlength=MAGNITUDES + 1)[:MAGNITUDES]
    squares = np.bincount(groups, values * values, MAGNITUDES + 1)[:MAGNITUDES]
    return counts.tolist(), np.sqrt(squares / np.maximum(counts, 1)).tolist()


def measure(values: Any, target: Any, shape: Sequence[int], least_scale: float = 0.0) -> Deviation:
    """Return the deviation of `values` from `target`, samples of outputs with `shape`.

    The error of a row is a share of its size, of that of `target` or of `least_scale`. There is no
    error where both have the same mask value.
    """
    if not target.size:
        return Deviation()
    differing = float((values != target).mean())
    difference, target = subtract(values, target), unmasked(target)
    scale, length = max(root_mean_square(target), least_scale), row_length(shape)
    sizes = np.maximum(_by_group(target, shape, length), scale)
    return Deviation(
        rmse=root_mean_square(difference),
        row=float((_by_group(difference, shape, length) / sizes).max()) if scale else 0.0,
        worst=float(abs(difference).max()),
        differing=differing,
        item=float(_by_group(difference, shape, math.prod(shape[1:] or shape)).max()),
        typical=float(np.median(abs(difference))),
        by_magnitude=tuple(by_magnitude(difference, target, scale)[1]) if scale else NO_MAGNITUDES,
    )


def cosine(values: Any, target: Any) -> float | None:
    """Return the cosine of the angle between two samples; None if one of them is zero or empty."""
    if not target.size:
        return None
    values, target = unmasked(values), unmasked(target)
    lengths = root_mean_square(values) * root_mean_square(target)
    return float((values * target).mean()) / lengths if lengths else None


def top_of(array: Any) -> Any:
    """Return the index of the largest value on the last axis, `(rows,) int64`."""
    return array.reshape(-1, array.shape[-1]).argmax(-1).astype("int64")


def excess_of_top(array: Any, classes: Any) -> Any:
    """Return by how much the largest value of each row exceeds that of its class in `classes`.

    `array` is `(..., values)`, `classes` and the result are `(rows,)`. 0 where both are the same.
    """
    rows = array.reshape(-1, array.shape[-1])
    each = np.arange(len(rows))
    top, wanted = top_of(array), classes
    excess = subtract(*(rows[each, index].astype("float64") for index in (top, wanted)))
    return np.where(top == wanted, 0.0, excess)


#: The largest finite numbers of float16, bfloat16, float32 and float64.
LIMITS = (65504.0, 3.3895313892515355e38, 3.4028234663852886e38, 1.7976931348623157e308)
#: Large constants are this many times as far from zero as every other value. Scores may have been
#: added to them, so they differ by less than the inverse of it.
TIMES = 1000.0
#: A single value may be an outlier.
LEAST_CONSTANTS = 2
#: A large constant is rounded by up to 0.4 % in bfloat16.
ROUNDING = 0.01


def find_masked(array: Any) -> Any:
    """Return which elements of a float64 array are mask values, as booleans of its shape."""
    masked = np.isinf(array) | _is_limit(array)
    lowest: float = np.min(array, where=~masked, initial=0.0)
    if lowest >= 0:
        return masked
    constant = ~masked & (array <= lowest * (1.0 - 1.0 / TIMES))
    others = ~(masked | constant)
    largest: float = np.max(abs(array), where=others, initial=0.0)
    is_mask = 0 < largest <= -lowest / TIMES and constant.sum() >= LEAST_CONSTANTS
    return masked | constant if is_mask else masked


def unmasked(array: Any) -> Any:
    """Return a float64 array with 0 for mask values."""
    return np.where(find_masked(array), 0.0, array)


def subtract(values: Any, target: Any) -> Any:
    """Return `values - target` of float64 arrays, with 0 where both have the same mask value.

    Limits of all precisions are the same one. Infinity and a finite number are not.
    """
    both_infinite = np.isinf(values) & np.isinf(target)
    both_limits = _is_limit(values) & _is_limit(target)
    same = (both_infinite | both_limits) & (np.sign(values) == np.sign(target))
    with np.errstate(over="ignore", invalid="ignore"):
        difference = np.where(same, 0.0, values) - np.where(same, 0.0, target)
        rounded = np.isfinite(difference) & (abs(difference) <= ROUNDING * abs(target))
    return np.where(find_masked(target) & rounded, 0.0, difference)


def _is_limit(array: Any) -> Any:
    sizes = abs(array)
    is_limit = np.zeros(array.shape, dtype=bool)
    if array.size and not sizes.max() < LIMITS[0]:
        for limit in LIMITS:
            is_limit |= sizes == limit
    return is_limit
