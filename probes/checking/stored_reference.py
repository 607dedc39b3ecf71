"""What outputs are expected, and by how much others may differ from them.

The reference worker writes it, and all others load it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from collections.abc import Sequence
from typing import Any

from probes import arrays
from probes.accuracy import Uncomparable
from probes.adapter import Findings
from probes.arrays import np
from probes.checking.deviation import (
    Deviation,
    by_magnitude,
    measure,
    root_mean_square,
    sample,
    unmasked,
)
from probes.checking.rules import Rules, allowed_error, most_by_chance

NO_DEVIATION, NO_FINDINGS = Deviation(), Findings()


@dataclasses.dataclass(frozen=True)
class Keys:
    """The values that an output, their places, orders or chooses from."""

    #: The keys, one row for each list with an order of its own: `(rows, values) float64`.
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
        values, wanted_values = (
            np.take_along_axis(self.rows, each.clip(0, count - 1), 1) for each in (mine, right)
        )
        is_twice = (np.diff(np.sort(mine, 1), axis=1) == 0).any(1, keepdims=True)
        is_same = (is_place & (values == wanted_values) & ~is_twice).reshape(moved.shape)
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
    #: Deviation of eager PyTorch in the tested precision.
    eager: Deviation
    #: The largest deviation of reference outputs with perturbed inputs and weights.
    envelope: Deviation = NO_DEVIATION
    #: The largest class of each row, `(rows,) int64`, and eager's share of the same ones; None
    #: where the last dimension is neither classes nor a vocabulary.
    top: Any = None
    eager_top1: float | None = None
    #: The values that are not compared, as they depend on the order of equal ones or on random
    #: numbers; None without any.
    left_out: Any = None
    #: The keys of an output that has places of values, some of which are equal.
    keys: Keys | None = None
    #: The root mean square of the reference over all input sets.
    least_scale: float = 0.0
    #: Whether it is a number, a flag or a text of Python's.
    is_value: bool = False

    @property
    def compared_elements(self) -> int:
        left_out = 0 if self.left_out is None else int(self.left_out.sum())
        return int(self.values.size) - left_out

    def align(self, array: Any) -> Any:
        """Return the sample of an output with the reference's values where others are right."""
        if self.keys and array.shape == self.shape:
            array = self.keys.replace_equal(array, self.values.reshape(self.shape))
        values = sample(array)
        return values if self.left_out is None else np.where(self.left_out, self.values, values)

    def measure(self, aligned: Any) -> Deviation:
        return measure(aligned, self.values, self.shape, self.least_scale)

    @functools.cached_property
    def scale(self) -> float:
        """The size of the output, of which errors are shares: a root mean square.

        It is that of this input set or of all sets, whichever is larger. Mask values count as 0.
        """
        return max(root_mean_square(unmasked(self.values)), self.least_scale)

    @functools.cached_property
    def magnitudes(self) -> tuple[list[int], list[float]]:
        """How many elements each magnitude has, and their root mean square; see `Deviation`."""
        values = unmasked(self.values)
        return by_magnitude(values, values, self.scale or 1.0)


@dataclasses.dataclass(frozen=True)
class Limits:
    """By how much an output may differ from what is expected of it in each input set."""

    of_sets: Sequence[ExpectedOutput]
    rules: Rules

    @property
    def few_elements_factor(self) -> float:
        """How many times as large eager's error may be: few elements may be exact by chance."""
        elements = sum(output.values.size for output in self.of_sets)
        return 1.0 + self.rules.few_elements / elements if elements else 1.0

    def rounding(self, number: int) -> float:
        """Return the error in input set `number` that rounding accounts for.

        It is eager's largest over the input sets, or the envelope over `Rules.eager_times`, because
        the rule allows that many times as much.
        """
        eager = max(output.eager.rmse / (output.scale or 1.0) for output in self.of_sets)
        own = self.of_sets[number]
        return max(
            eager * self.few_elements_factor * (own.scale or 1.0),
            own.envelope.rmse / self.rules.eager_times,
        )

    def error(self, number: int) -> float:
        """Return the largest root mean square error of an exact output in input set `number`."""
        return allowed_error(self.of_sets[number].scale, self.rounding(number), self.rules)

    @property
    def row_error(self) -> float:
        """The largest error of a row, as a share, of an exact output."""
        eager = max(output.eager.row for output in self.of_sets) * self.few_elements_factor
        envelope = max(output.envelope.row for output in self.of_sets)
        # Eager has no error at all if the reference has the same precision: rounding is not known
        # then.
        rules, share = self.rules, self.rules.row_share
        share = share if eager else max(share, rules.share_of_rms)
        return max(rules.row_eager_times * eager + share, envelope)

    @property
    def typical_error(self) -> float:
        """The largest typical error of an exact output, over the RMS of the reference."""
        eager = max(output.eager.typical / (output.scale or 1.0) for output in self.of_sets)
        eager *= self.few_elements_factor
        envelope = max(output.envelope.typical / (output.scale or 1.0) for output in self.of_sets)
        return max(self.rules.typical_eager_times * eager, envelope) + self.rules.share_of_rms

    def small_error(self, number: int, deviation: Deviation) -> tuple[float, float]:
        """Return an error of small elements, a share of their size, and the largest allowed one.

        It is that of the magnitude that exceeds the allowed one most. Elements may have as many
        times the error of rounding as the largest ones, those of a program with less precision.
        """
        rules, own = self.rules, self.of_sets[number]
        least_share = max(rules.small_share, rules.row_tolerance)
        found, times = [(0.0, least_share)], 0.0
        sizes, errors = own.magnitudes[1], deviation.by_magnitude
        for group, (size, error) in enumerate(zip(sizes, errors, strict=True)):
            if not size:
                continue
            rounding = self._rounding_of_magnitude(group, number) + rules.row_share * size
            if times:
                found.append((error / size, max(least_share, times * rounding / size)))
            else:
                times = rules.small_times * max(1.0, error / rounding)
        return max(found, key=lambda each: each[0] / each[1])

    def _rounding_of_magnitude(self, group: int, number: int) -> float:
        """Return what rounding changes in elements of a magnitude, as seen in all input sets."""
        seen = (each.eager.or_larger(each.envelope) for each in self.of_sets)
        shares = [
            error.by_magnitude[group] / (each.scale or 1.0)
            for error, each in zip(seen, self.of_sets, strict=True)
        ]
        # Few elements may be exact by chance.
        count = sum(each.magnitudes[0][group] for each in self.of_sets)
        by_chance = self.rules.few_elements / count * self.rounding(number)
        return max(shares) * self.of_sets[number].scale + by_chance

    def difference(self, elements: int | None = None, tests: int = 1) -> float:
        """Return the largest share of `elements` that may differ; by default of those of all sets.

        With several `tests` of that many elements each, the probability that any of them exceeds it
        stays the same.
        """
        of_sets, rules = self.of_sets, self.rules
        total = sum(output.values.size for output in of_sets)
        elements = total if elements is None else elements
        if not total or not elements:
            return 0.0
        eager = sum(output.eager.differing * output.values.size for output in of_sets)
        perturbed = sum(output.envelope.differing * output.values.size for output in of_sets)
        envelope = max(output.envelope.differing for output in of_sets)
        # Where many of eager's differ, a multiple of their share would allow any output.
        multiple = 1 - math.pow(1 - eager / total, rules.integer_eager_times)
        share = max(multiple, envelope) + rules.integer_share
        by_chance = most_by_chance(elements, max(eager, perturbed), total, rules, tests)
        return max(share, by_chance / elements)


@dataclasses.dataclass(frozen=True)
class Reference:
    """What the reference worker provides for all others, for one shape."""

    #: The precision of the reference, such as `float64`.
    name: str
    #: The model's arguments for each input set, as numpy arrays.
    inputs: list[list[Any]]
    #: The model's outputs for each input set.
    outputs: list[list[ExpectedOutput]]
    #: Why nothing of an output is compared, by its number.
    uncompared: dict[int, Uncomparable] = dataclasses.field(default_factory=dict)
    #: What was found of the calls, without arrays. Its `draws` tells whether each call draws the
    #: same random numbers.
    findings: Findings = NO_FINDINGS
    #: How many perturbations the envelope has.
    perturbations: int = 0

    def compared(self) -> Reference:
        outputs = [self.keep_compared(outputs) for outputs in self.outputs]
        return dataclasses.replace(self, outputs=outputs, uncompared={})

    def keep_compared(self, outputs: Sequence[Any]) -> list[Any]:
        return [
            output
            for index, output in enumerate(outputs)
            if self.uncompared.get(index) in {None, "partly-random"}
        ]

    def with_values(self, number: int, outputs: Sequence[Any]) -> list[Any]:
        """Return outputs with the model's numbers and texts if the stack returns tensors alone."""
        expected = self.outputs[number]
        if len(outputs) != sum(not output.is_value for output in expected):
            return list(outputs)
        tensors = iter(outputs)
        return [output.values[0] if output.is_value else next(tensors) for output in expected]

    def limits(self, index: int, rules: Rules) -> Limits:
        return Limits([outputs[index] for outputs in self.outputs], rules)


def load_reference(file: pathlib.Path) -> Reference:
    return arrays.load(file, Reference, ExpectedOutput, Deviation, Keys, Findings)
