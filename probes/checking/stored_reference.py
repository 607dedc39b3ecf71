"""What outputs are expected: the reference that one worker writes and all others load."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from probes.checking import arrays
from probes.checking.arrays import np
from probes.checking.deviation import Deviation, root_mean_square, sample, unmasked
from probes.checking.limits import Limits, Rules
from probes.wire.checks import Uncomparable

NO_DEVIATION = Deviation()


@dataclasses.dataclass(frozen=True)
class Keys:
    """The values that an output, their places, orders or chooses from."""

    #: By what has an order of its own, `(rows, values) float64`.
    rows: Any
    #: The axis of the output that has the places of a row; None if it has one for each row.
    axis: int | None

    def replace_equal(self, places: Any, wanted: Any) -> Any:
        """Return `places` with those of `wanted` where both have equal values."""
        axis = -1 if self.axis is None else self.axis
        moved, target = (
            np.moveaxis(each[..., None] if self.axis is None else each, axis, -1)
            for each in (places, wanted)
        )
        count = self.rows.shape[1]
        mine, right = (each.reshape(len(self.rows), -1).astype("int64") for each in (moved, target))
        is_place = (mine >= 0) & (mine < count)
        found, expected = (
            np.take_along_axis(self.rows, each.clip(0, count - 1), 1) for each in (mine, right)
        )
        is_twice = (np.diff(np.sort(mine, 1), axis=1) == 0).any(1, keepdims=True)
        is_same = (is_place & (found == expected) & ~is_twice).reshape(moved.shape)
        replaced = np.moveaxis(np.where(is_same, target, moved), -1, axis)
        return replaced[..., 0] if self.axis is None else replaced


@dataclasses.dataclass(frozen=True)
class ExpectedOutput:
    """One output of the model for one input set."""

    #: The sampled values of the reference: `(elements,) float64`.
    values: Any
    shape: tuple[int, ...]
    #: False for integers and booleans whose differences are counted.
    is_float: bool
    #: Of eager PyTorch in the tested precision.
    eager: Deviation
    #: The largest deviation of reference outputs with perturbed inputs and weights.
    envelope: Deviation = NO_DEVIATION
    #: The largest class of each row, `(rows,) int64`, and eager's share of the same ones; None
    #: where the last dimension is neither classes nor a vocabulary.
    top: Any = None
    eager_top1: float | None = None
    #: Which values are not compared: those that depend on the order of equal ones or on random
    #: numbers; None without any.
    left_out: Any = None
    #: Of places of values, some of which are equal.
    keys: Keys | None = None

    def align(self, array: Any) -> Any:
        """Return the sample of an output with the reference's values where others are right."""
        if self.keys and array.shape == self.shape:
            array = self.keys.replace_equal(array, self.values.reshape(self.shape))
        values = sample(array)
        return values if self.left_out is None else np.where(self.left_out, self.values, values)

    @functools.cached_property
    def scale(self) -> float:
        """The root mean square of the reference, in which mask values count as 0."""
        return root_mean_square(unmasked(self.values))


@dataclasses.dataclass(frozen=True)
class Reference:
    """What the reference worker provides for all others, for one batch size."""

    #: The precision of the reference, such as `float64`.
    name: str
    #: By input set, the model's arguments as numpy arrays.
    inputs: list[list[Any]]
    #: By input set, the model's outputs.
    outputs: list[list[ExpectedOutput]]
    #: Why nothing of an output is compared, by its number.
    uncompared: dict[int, Uncomparable] = dataclasses.field(default_factory=dict)
    #: Types of values among the outputs that cannot be compared.
    unseen: tuple[str, ...] = ()
    #: Whether a call of the model draws the same random numbers each time.
    draws: bool = False
    #: How many perturbations the envelope has.
    perturbations: int = 0

    def compared(self) -> Reference:
        """Return the reference without the outputs that are not compared."""
        outputs = [self.keep_compared(outputs) for outputs in self.outputs]
        return dataclasses.replace(self, outputs=outputs, uncompared={})

    def keep_compared(self, outputs: Sequence[Any]) -> list[Any]:
        return [
            each
            for index, each in enumerate(outputs)
            if self.uncompared.get(index) in {None, "partly-random"}
        ]

    def limits(self, index: int, rules: Rules) -> Limits:
        """Return by how much output `index` may differ."""
        return Limits([outputs[index] for outputs in self.outputs], rules)


def load_reference(file: pathlib.Path) -> Reference:
    found: Reference = arrays.load(file, Reference, ExpectedOutput, Deviation, Keys)
    return found
