"""Sampling, rows and the measures of a deviation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from probes.checking import deviation


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
