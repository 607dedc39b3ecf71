"""Measure how far rounding alone may go for a model, and whether the model is random.

The reference is computed again with inputs and weights that are off by one unit in the last place
of the tested precision. A model that amplifies rounding shows it there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from probes.checking.array_reference import Reference, widen
from probes.checking.deviation import measure, sample

#: Two calls of the reference with one input differ by more than these shares of the RMS and of
#: eager PyTorch's error only if the model draws random numbers: in higher precision, rounding stays
#: far below.
RANDOM_SHARE = 1e-5
EAGER_SHARE = 0.25


def measure_rounding(reference: Reference, subject: Any, limits: Mapping[str, Any]) -> Reference:
    """Return the reference with its envelope, and with whether the model is random.

    A subject without `perturbed` has no envelope. `limits` are those of `rubric/accuracy.toml`.
    """
    start = perf_counter()
    if is_random(reference, subject):
        return dataclasses.replace(reference, is_random=True)
    if not hasattr(subject, "perturbed"):
        return reference
    outputs = list(reference.outputs)
    perturbations = 0
    for seed in range(limits["seeds"]):
        # The next one takes as long as those before it.
        spent = perf_counter() - start
        if spent * (perturbations + 2) / (perturbations + 1) > limits["seconds"]:
            break
        number = seed % len(outputs)
        rounded = subject.perturbed(reference.inputs[number], seed)
        if rounded is None:
            break
        outputs[number] = widen(outputs[number], rounded)
        perturbations += 1
    return dataclasses.replace(reference, outputs=outputs, perturbations=perturbations)


def is_random(reference: Reference, subject: Any) -> bool:
    """Return whether the model returns other outputs for the first input set when it runs again."""
    _, again = subject.reference(reference.inputs[:1])
    for expected, array in zip(reference.outputs[0], next(iter(again)), strict=True):
        if tuple(array.shape) != expected.shape:
            return True
        found = measure(sample(array), expected.values, expected.shape)
        if expected.is_float and found.rmse > max(
            RANDOM_SHARE * expected.scale, EAGER_SHARE * expected.eager.rmse
        ):
            return True
        if not expected.is_float and found.differing:
            return True
    return False
