"""Find outputs that belong to another input: stale, swapped or the same for all inputs.

Each output has to be nearer to its own reference than to that of any other input or row of a batch.
The size of the error does not show this where the outputs of all inputs are nearly the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from probes.arrays import np
from probes.checking.deviation import stride_of, unmasked
from probes.checking.rules import Rules
from probes.checking.stored_reference import ExpectedOutput, Reference

#: An output belongs to another input if it is nearer to that one's reference by this factor.
NEARER = 0.5
#: Rows whose error is below this many times the largest of eager PyTorch, or below the largest of
#: the envelope, are not looked at: they are near to others by chance.
BEYOND_ROUNDING = 2.0
#: Limits of the comparison of all rows with all rows: number of rows and of elements of each.
MAX_ROWS = 512
MAX_ROW_ELEMENTS = 2048
REASONS = {
    "same-output": "it returns the same output for every input",
    "identity": "outputs are nearer to those of other inputs, or of other rows, than to their own",
}


def find_fault(
    reference: Reference, samples: Sequence[Sequence[Any]], rules: Rules
) -> Literal["same-output", "identity"] | None:
    """Return the fault of `samples`, `(elements,) float64` by input set and output."""
    for index, expected in _outputs_of_one_shape(reference):
        limits = reference.limits(index, rules)
        target = _rows([output.values for output in limits.of_sets], expected.shape)
        values = _rows([outputs[index] for outputs in samples], expected.shape)
        if not target.size:
            continue
        if expected.is_float:
            distances = _distances(values, target)
            times = BEYOND_ROUNDING * limits.few_elements_factor
            rounding = max(
                max(times * output.eager.item, output.envelope.item) for output in limits.of_sets
            )
        else:
            # How far an index is from another one means nothing, so the elements that differ count.
            distances = np.stack([(row != target).mean(1) for row in values])
            rounding = limits.difference(target.shape[1], len(target))
        if _any_belongs_elsewhere(distances, rounding):
            same = _all_equal(values) or _all_equal([outputs[index] for outputs in samples])
            return "same-output" if same else "identity"
    return None


def is_same_for_all(reference: Reference, samples: Sequence[Sequence[Any]]) -> bool:
    """Return whether an output is the same for all inputs where the reference has several."""
    for index, expected in _outputs_of_one_shape(reference):
        wholes = [outputs[index] for outputs in samples]
        references = [outputs[index].values for outputs in reference.outputs]
        rows, wanted = (_rows(each, expected.shape) for each in (wholes, references))
        pairs = ((rows, wanted), (wholes, references))
        if any(_all_equal(each) and not _all_equal(target) for each, target in pairs):
            return True
    return False


def is_constant(reference: Reference) -> bool:
    """Return whether every output has one value only, such as zeros: it shows no error."""
    by_output = (
        np.concatenate([each.values for each in of_sets])
        for of_sets in zip(*reference.outputs, strict=True)
    )
    return all((values == values[:1]).all() for values in by_output)


def _outputs_of_one_shape(reference: Reference) -> Iterator[tuple[int, ExpectedOutput]]:
    """Leave out outputs whose shape depends on the inputs: they cannot be taken for one another."""
    for index, expected in enumerate(reference.outputs[0]):
        if all(outputs[index].shape == expected.shape for outputs in reference.outputs):
            yield index, expected


def _rows(samples: Sequence[Any], shape: Sequence[int]) -> Any:
    """Return the rows of the batch of all input sets as `(rows, elements) float64`.

    An output that is sampled, or has too many rows, is one row for each input set.
    """
    size = math.prod(shape)
    batch = shape[0] if shape and stride_of(size) == 1 and size else 1
    if batch * len(samples) > MAX_ROWS:
        batch = 1
    rows = unmasked(np.stack(samples)).reshape(batch * len(samples), -1)
    step = -(-rows.shape[1] // MAX_ROW_ELEMENTS) or 1
    return rows[:, ::step]


def _all_equal(rows: Sequence[Any]) -> bool:
    return len(rows) > 1 and all(bool((row == rows[0]).all()) for row in rows)


def _distances(values: Any, target: Any) -> Any:
    """Map both `(rows, elements) float64` to root mean square distances, `(rows, rows)`."""
    centre = target.mean(0)
    values, target = values - centre, target - centre
    squares = (values**2).sum(1)[:, None] + (target**2).sum(1) - 2 * values @ target.T
    return np.sqrt(np.maximum(squares, 0) / target.shape[1])


def _any_belongs_elsewhere(distances: Any, rounding: float) -> bool:
    """Return whether a row is off by more than `rounding` and nearer to another's reference."""
    if len(distances) == 1:
        return False
    own = distances.diagonal().copy()
    others = distances.copy()
    np.fill_diagonal(others, math.inf)
    return bool(((own > rounding) & (others.min(1) < NEARER * own)).any())
