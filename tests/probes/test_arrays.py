from __future__ import annotations

import numpy as np
import pytest

from probes.arrays import is_same

NAN = np.uint32([0x7FC00000, 0x7FC00001]).view(np.float32)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (np.float32([1, np.nan]), np.float32([1, np.nan]), True),
        (NAN[:1], NAN[1:], True),
        (np.float32([0.0]), np.float32([-0.0]), True),
        (np.float32([1]), np.float32([1 + 2**-23]), False),
        (np.float32([1, 1]), np.float32([[1, 1]]), False),
        (np.float32([1]), np.int32([1]), True),
        (np.int32([0x3F800000]), np.float32([1]), False),
        (np.array(True), np.array(False), False),  # noqa: FBT003 - no argument of a function
        (np.float64([[1, 2], [3, 4]]).T, np.float64([[1, 3], [2, 4]]), True),
        (np.array(["a"], dtype=object), np.array(["a"], dtype=object), True),
    ],
)
def test_arrays_are_the_same_by_value(one: object, other: object, expected: object) -> None:
    assert is_same(one, other) is expected
