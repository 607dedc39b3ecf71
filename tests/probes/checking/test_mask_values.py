"""Mask values: which ones are found, and how they are subtracted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from probes.checking.mask_values import find_masked, subtract

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
        ([1.0, math.nan, math.inf], [False, False, False]),
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
