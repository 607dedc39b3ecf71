"""Refuse a reference that is another function than the model, and not a more precise one.

A branch on the dtype, or random draws that depend on it, make it so. Eager PyTorch is then much
further away from it than rounding changes it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from probes.checking.deviation import measure, root_mean_square, sample
from probes.checking.mask_values import unmasked

#: Errors of eager PyTorch, relative to the output, that are not looked at: this many units of its
#: precision, or this share if that is less.
UNITS, SHARE = 2000.0, 0.02
#: What perturbations of inputs and weights change may be multiplied by this.
TIMES, PERTURBATIONS = 10.0, 2


def refuse_unfit(
    exact: Sequence[Any],
    eager: Sequence[Any],
    perturbed: Iterable[Sequence[Any] | None],
    random: Collection[int],
    unit: float,
    own_unit: float,
) -> None:
    """Raise `ValueError` if an output of `eager` is none that rounding makes of `exact`.

    All are numpy arrays by output; those of the numbers in `random` do not count. `unit` is that of
    the least exact precision in which eager PyTorch computes, and `own_unit` that of the
    perturbations.
    """
    far = {
        index: found
        for index, found in _distances(eager, exact, random)
        if found > min(UNITS * unit, SHARE)
    }
    if not far:
        return
    reach = [dict(_distances(each, exact, random)) for each in perturbed if each is not None]
    for index, found in far.items():
        if found > TIMES * unit / own_unit * max(
            (each.get(index, 0.0) for each in reach), default=0.0
        ):
            message = f"output {index} of the reference is that of another function"
            raise ValueError(message)


def _distances(
    outputs: Sequence[Any], exact: Sequence[Any], random: Collection[int]
) -> Iterator[tuple[int, float]]:
    """Yield the number of each output that is not random, and its error.

    It is relative to the root mean square; of integers it is the share that differs. An output of
    another shape has an infinite one.
    """
    for index, (array, target) in enumerate(zip(outputs, exact, strict=True)):
        if index in random:
            continue
        if array.shape != target.shape:
            yield index, math.inf
            continue
        if not target.size:
            continue
        found = measure(sample(array), sample(target), target.shape)
        scale = root_mean_square(unmasked(sample(target))) or 1.0
        yield index, found.rmse / scale if target.dtype.kind == "f" else found.differing
