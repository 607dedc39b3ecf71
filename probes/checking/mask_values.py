"""Mask values in outputs: what a model puts in place of scores that do not count.

They are infinite, a limit of a precision (`torch.finfo(x.dtype).min`) or a large constant (-1e9).
Their size means nothing: an output would have any error if it were compared with them.
"""

from __future__ import annotations

from typing import Any

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
    import numpy as np  # noqa: PLC0415 - the core is importable without any stack

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
    import numpy as np  # noqa: PLC0415

    return np.where(find_masked(array), 0.0, array)


def subtract(values: Any, target: Any) -> Any:
    """Return `values - target` of float64 arrays, with 0 where both have the same mask value.

    Limits of all precisions are the same one. Infinity and a finite number are not.
    """
    import numpy as np  # noqa: PLC0415

    both_infinite = np.isinf(values) & np.isinf(target)
    both_limits = _is_limit(values) & _is_limit(target)
    same = (both_infinite | both_limits) & (np.sign(values) == np.sign(target))
    with np.errstate(over="ignore", invalid="ignore"):
        difference = np.where(same, 0.0, values) - np.where(same, 0.0, target)
        rounded = np.isfinite(difference) & (abs(difference) <= ROUNDING * abs(target))
    return np.where(find_masked(target) & rounded, 0.0, difference)


def _is_limit(array: Any) -> Any:
    import numpy as np  # noqa: PLC0415

    sizes = abs(array)
    found = np.zeros(array.shape, dtype=bool)
    if array.size and not sizes.max() < LIMITS[0]:
        for limit in LIMITS:
            found |= sizes == limit
    return found
