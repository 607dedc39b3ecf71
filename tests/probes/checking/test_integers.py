"""Deviations of outputs: of numbers, of mask values, and of indices, labels and masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from workers import rules

from probes.adapter import Findings
from probes.checking import correctness, deviation, output_check, program_cell
from probes.checking.array_reference import create_reference
from probes.checking.deviation import find_masked, subtract
from probes.checking.rules import MANY, most_by_chance
from probes.checking.stored_reference import Limits, Reference
from probes.shape import Shape

INPUT_SETS, CLASSES = 4, 1000
#: Errors of logits of unit variance in a small transformer.
ERRORS = {"float32": 1e-6, "float16": 1.5e-3, "bfloat16": 1.2e-2}
SEEDS = 60
#: Models of which a fault is found in each.
FEW = 15
#: Five ordered classes of one row in bfloat16 differ most: two change places, or more do.
LEAST_ACCEPTED = 0.93


def top_class(logits: Any) -> Any:
    return logits.argmax(-1)


def five_classes(logits: Any) -> Any:
    return np.argsort(-logits, -1)[:, :5]


class Labels:
    """Integers that follow from random logits, whose errors are as large as eager PyTorch's."""

    def __init__(self, seed: int, batch_size: int, dtype: str, choose: Any) -> None:
        self.generator = np.random.default_rng([seed, batch_size])
        self.error, self.choose = ERRORS[dtype], choose
        self.logits = self.generator.standard_normal((INPUT_SETS, batch_size, CLASSES))

    def exact(self) -> list[list[Any]]:
        return [[self.choose(each)] for each in self.logits]

    def rounded(self, times: float = 1.0) -> list[list[Any]]:
        errors = self.generator.standard_normal(self.logits.shape)
        return [[self.choose(each)] for each in self.logits + times * self.error * errors]

    def reference(self) -> Reference:
        inputs = [[np.zeros(1)]] * INPUT_SETS
        return create_reference("float64", self.exact(), self.rounded(), inputs)


def count_accepted(
    batch_size: int, dtype: str, choose: Any, change: Any, models: int = SEEDS
) -> int:
    """Return in how many models the outputs that `change` returns are exact."""
    accepted = 0
    for seed in range(models):
        labels = Labels(seed, batch_size, dtype, choose)
        record, _ = correctness.check_outputs(
            labels.reference(), change(labels), rules(dtype, tolerance=0.0), Shape(batch_size)
        )
        accepted += record.accuracy_class == "exact"
    return accepted


def previous(labels: Labels) -> list[list[Any]]:
    outputs = labels.rounded()
    return [outputs[-1], *outputs[:-1]]


def permuted(labels: Labels) -> list[list[Any]]:
    return [[output[::-1]] for (output,) in labels.rounded()]


def zeros(labels: Labels) -> list[list[Any]]:
    return [[np.zeros_like(output)] for (output,) in labels.exact()]


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("choose", [top_class, five_classes])
def test_near_ties_of_few_indices_are_no_fault(dtype: str, batch_size: int, choose: Any) -> None:
    assert count_accepted(batch_size, dtype, choose, Labels.rounded) >= LEAST_ACCEPTED * SEEDS


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("choose", [top_class, five_classes])
@pytest.mark.parametrize("change", [previous, permuted, zeros])
def test_indices_of_other_inputs_are_a_fault(dtype: str, choose: Any, change: Any) -> None:
    assert count_accepted(8, dtype, choose, change, FEW) == 0


def test_zeros_are_a_fault_where_most_of_eager_differs() -> None:
    def order(logits: Any) -> Any:
        return np.argsort(-logits, -1)[:, :100]

    assert Labels(0, 8, "bfloat16", order).reference().outputs[0][0].eager.differing > 1 / 3
    assert count_accepted(8, "bfloat16", order, Labels.rounded, FEW) == FEW
    assert count_accepted(8, "bfloat16", order, zeros, FEW) == 0


def integers_of(*sizes: int) -> Reference:
    expected = [[np.arange(size)] for size in sizes]
    return create_reference("float64", expected, expected, [[np.zeros(1)]] * len(sizes))


@pytest.mark.parametrize(("turned", "verdict"), [(5, "exact"), (9, "incorrect")])
def test_all_input_sets_are_judged_together(turned: int, verdict: str) -> None:
    reference = integers_of(*[100] * 4)
    produced = [[np.arange(100)] for _ in range(4)]
    produced[2][0][:turned] += 1000
    record, _ = correctness.check_outputs(
        reference, produced, rules("bfloat16", tolerance=0.0), Shape(1)
    )
    assert record.accuracy_class == verdict
    assert record.accuracy.relative_error == pytest.approx(turned / 400)


def test_a_row_of_another_input_is_a_fault_however_few_integers_differ() -> None:
    masks: Any = np.zeros((8, 100), dtype=bool)
    masks[np.arange(8), np.arange(8)] = True
    masks[6, 20:25] = masks[7, 30:35] = True
    reference = create_reference("float64", [[masks]], [[masks]], [[np.zeros(1)]])
    produced = masks.copy()
    produced[7] = masks[6]
    assert Limits(reference.outputs[0], rules("bfloat16")).difference() > (produced != masks).mean()
    record, _ = correctness.check_outputs(reference, [[produced]], rules("bfloat16"), Shape(8))
    assert record.accuracy.fault == "identity"


@pytest.mark.parametrize(("other", "is_race"), [([0, 1, 2, 500], False), ([3, 2, 1, 0], True)])
def test_an_index_that_varies_at_a_near_tie_is_no_race(other: list[int], is_race: bool) -> None:
    outputs, limits = ([np.array(other)], [np.arange(4)]), rules("bfloat16")
    assert (output_check.compare_arrays(integers_of(4), limits, *outputs) is not None) == is_race


@pytest.mark.parametrize("elements", [1, 4, 32, 1000])
@pytest.mark.parametrize("differing", [0, 1, 30])
@pytest.mark.parametrize("tests", [1, 32])
def test_chance_is_the_prediction_from_what_eager_showed(
    elements: int, differing: int, tests: int
) -> None:
    from scipy.stats import betabinom  # noqa: PLC0415 - slow to import

    total, found = max(elements, differing), rules("bfloat16")
    one, other = found.integer_prior
    expected = betabinom(elements, one + differing, other + total - differing)
    most = most_by_chance(elements, differing, total, found, tests)
    assert most == expected.ppf(1 - found.integer_alarm / tests)


def test_chance_allows_less_than_the_multiple_of_many() -> None:
    assert most_by_chance(10**6, MANY, 10**6, rules("bfloat16")) < 3 * MANY


@pytest.mark.parametrize(("is_close", "tolerance", "share"), [(False, 0.3, 0.1), (True, 0.3, 0.3)])
def test_a_recipe_may_differ_from_eager_in_as_many_integers(
    is_close: bool, tolerance: float, share: float
) -> None:
    found = rules("bfloat16", tolerance=tolerance)
    allowances = program_cell.eager_allowance(integers_of(20, 20), found, is_close=is_close)
    assert allowances == pytest.approx([max(share, most_by_chance(20, 0.0, 40, found) / 20)])


def test_an_output_that_is_not_compared_has_no_allowance() -> None:
    ones = np.ones((2, 64))
    outputs, ties = [[ones, ones, np.arange(3), np.arange(9)]], [np.eye(2, 64) > 0, *[False] * 3]
    ties[3] = np.arange(9) < 3
    reference = create_reference(
        "float64", outputs, outputs, [[]], (), Findings({2: None}), lambda *_: ties
    )
    allowances: Any = program_cell.eager_allowance(reference, rules("float32"), is_close=True)
    assert [each is None for each in allowances] == [True, False, True, False]
    assert allowances[3] > 1 / 3


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
def test_a_large_output_is_sampled_in_every_row_and_column(shape: tuple[int, ...]) -> None:
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
        ([1.0, math.nan, math.inf], [False, False, True]),
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
        (math.inf, math.inf, 0.0),
        (math.inf, -math.inf, math.inf),
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
