"""Deviations of outputs, and the mask values among them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from probes.checking import deviation
from probes.checking.deviation import find_masked, subtract


def test_a_small_output_is_compared_completely() -> None:
    array: Any = np.arange(24, dtype="float32").reshape(2, 3, 4)
    sampled = deviation.sample(array)
    assert sampled.dtype == np.float64
    assert sampled.tolist() == list(range(24))


@pytest.mark.parametrize(
    "shape",
    [
        (2048, 1024),
        (2048, 768),  # three times a power of two, like many hidden sizes
        (16, 128, 3072),
        (1500, 1280),
        (300, 30522),
        (35, 45045),  # 3 * 5 * 7 * 9 * 11 * 13
        (1049, 1051),
    ],
    ids=str,
)
def test_a_large_output_is_sampled_in_every_row_and_column(
    shape: tuple[int, ...],
) -> None:
    *_, columns = shape
    rows = math.prod(shape) // columns
    positions: Any = np.arange(rows * columns, dtype="float64").reshape(shape)
    sampled = deviation.sample(positions)
    assert deviation.MAX_ELEMENTS / 4 < sampled.size <= deviation.MAX_ELEMENTS
    assert np.unique(sampled % columns).size == columns
    assert np.unique(sampled // columns).size == rows


@pytest.mark.parametrize(
    ("shape", "length"),
    [((8, 128, 768), 768), ((4, 1000), 1000), ((64, 2), 128), ((3, 5), 15), ((), 1), ((7,), 7)],
    ids=str,
)
def test_a_row_is_the_last_dimension_unless_that_is_short(
    shape: tuple[int, ...], length: int
) -> None:
    assert deviation.row_length(shape) == length


def test_the_error_of_one_row_shows_in_the_row_measure() -> None:
    target = np.random.default_rng(0).standard_normal((32, 64))
    values = target.copy()
    values[-1] *= 1.05
    found = deviation.measure(values.reshape(-1), target.reshape(-1), target.shape)
    assert found.row == pytest.approx(0.05, rel=0.1)
    assert found.rmse == pytest.approx(0.05 / math.sqrt(32), rel=0.2)
    assert found.differing == pytest.approx(1 / 32)


def test_a_row_near_zero_counts_by_the_size_of_the_whole_output() -> None:
    target = np.ones((32, 64))
    target[3] = 1e-12
    values = target.copy()
    values[3] += 1e-6
    found = deviation.measure(values.reshape(-1), target.reshape(-1), target.shape)
    assert found.row == pytest.approx(1e-6, rel=0.1)


def test_few_large_errors_do_not_change_the_typical_error() -> None:
    target = np.random.default_rng(0).standard_normal((32, 64))
    values = target + 1e-3
    values[:3] += 5.0
    found = deviation.measure(values.reshape(-1), target.reshape(-1), target.shape)
    assert found.typical == pytest.approx(1e-3)
    assert found.rmse > 1.0


FLOAT32 = float(np.finfo("float32").min)
FLOAT64 = float(np.finfo("float64").min)
BFLOAT16 = -3.3895313892515355e38


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ([1.0, -math.inf, 2.0], [False, True, False]),
        ([1.0, FLOAT32, 2.0], [False, True, False]),
        ([1.0, -FLOAT32, 2.0], [False, True, False]),
        ([FLOAT64, BFLOAT16, -65504.0], [True, True, True]),
        ([3.0, -1e9, -1e9 + 5], [False, True, True]),
        ([3.0, -1e9, FLOAT32, -1e9], [False, True, True, True]),
        ([3.0, -1e9, 2.0], [False, False, False]),  # may be an outlier
        ([3.0, -1e9, -2e9], [False, False, False]),
        ([30.0, -1e4, -1e4], [False, False, False]),
        ([0.0, -1e9, -1e9], [False, False, False]),  # values of a mask
        ([1e9, 1e9, 2.0], [False, False, False]),
        ([1.0, math.nan, math.inf], [False, False, True]),
        ([], []),
    ],
    ids=str,
)
def test_mask_values_are_found(row: list[float], found: list[bool]) -> None:
    assert find_masked(np.array(row)).tolist() == found


@pytest.mark.parametrize(
    ("value", "target", "difference"),
    [
        (-math.inf, -math.inf, 0.0),
        (FLOAT32, FLOAT64, 0.0),
        (-65504.0, BFLOAT16, 0.0),
        (-65504.0, 65504.0, -131008.0),
        (math.inf, math.inf, 0.0),
        (math.inf, -math.inf, math.inf),
        (-math.inf, FLOAT32, -math.inf),
        (FLOAT32, -math.inf, math.inf),
        (4.0, FLOAT32, -FLOAT32),
        (-1.004e9, -1e9, 0.0),
        (-1.1e9, -1e9, -1e8),
        (1.5, 1.0, 0.5),
    ],
)
def test_equal_masks_have_no_difference(value: float, target: float, difference: float) -> None:
    found = subtract(np.array([value, value, 1.0]), np.array([target, target, 1.0]))
    assert found == pytest.approx([difference, difference, 0.0], nan_ok=True)
