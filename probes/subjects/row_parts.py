"""Run a batch in parts where the memory of the device is too small for the whole of it.

The reference needs up to four times the memory of the model in the tested precision, and more
where a kernel that saves memory has no float64 version, as that of attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

#: Takes and returns numpy arrays.
Run = Callable[[list[Any]], list[Any]]


def run_within_memory(
    run: Run, inputs: list[Any], batched: Sequence[bool], can_divide: Callable[[], bool]
) -> list[Any]:
    """Return `run(inputs)`, computed in parts of the batch where the whole does not fit.

    `batched` has for each input whether its first dimension is the batch, and `can_divide` whether
    the outputs of a row are the same in a smaller batch; it is called only where parts are needed.
    Raise `torch.OutOfMemoryError` if they are not, or if one row does not fit.
    """
    rows = size = _count_rows(inputs, batched)
    while True:
        try:
            return run(inputs) if size == rows else run_in_parts(run, inputs, batched, size)
        except torch.OutOfMemoryError:
            if size <= 1:
                raise
        # Outside of the handler: the exception held the tensors of the failed call.
        torch.cuda.empty_cache()
        if size == rows and not can_divide():
            message = "the batch does not fit, and its rows depend on each other"
            raise torch.OutOfMemoryError(message)
        size = (size + 1) // 2


def run_in_parts(run: Run, inputs: list[Any], batched: Sequence[bool], size: int) -> list[Any]:
    """Call with `size` rows at a time; raise `ValueError` if the outputs cannot be joined."""
    rows = _count_rows(inputs, batched)
    parts = [
        run(
            [
                array[start : start + size] if is_batched else array
                for array, is_batched in zip(inputs, batched, strict=True)
            ]
        )
        for start in range(0, rows, size)
    ]
    return [
        np.concatenate([np.atleast_1d(each) for each in output])
        for output in zip(*parts, strict=True)
    ]


def has_uncoupled_rows(
    run: Run, inputs: list[Any], batched: Sequence[bool], epsilon: float
) -> bool:
    """Compare halves with the whole batch; `epsilon` is the rounding of `run`'s precision."""
    rows, whole = _count_rows(inputs, batched), run(inputs)
    try:
        joined = run_in_parts(run, inputs, batched, (rows + 1) // 2)
    except ValueError:
        return False
    return all(
        one.shape == other.shape and is_near(one, other, epsilon**0.5)
        for one, other in zip(whole, joined, strict=True)
    )


def _count_rows(inputs: list[Any], batched: Sequence[bool]) -> int:
    """Return the rows of the batch; 0 where no input has any."""
    rows = {
        len(array) if array.ndim else 0
        for array, is_batched in zip(inputs, batched, strict=True)
        if is_batched
    }
    return rows.pop() if len(rows) == 1 else 0


def is_near(one: Any, other: Any, share: float) -> bool:
    """Return whether the arrays differ by at most this share of the root mean square of `one`."""
    if not one.size:
        return True
    first, second = (np.nan_to_num(each.astype("float64")) for each in (one, other))
    return bool(((first - second) ** 2).mean() <= share**2 * (first**2).mean())
