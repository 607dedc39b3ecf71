"""The rule for exact and close outputs, at its thresholds and for structural faults."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from typing import Any

import numpy as np
import pytest
from workers import rules

from probes.accuracy import Accuracy
from probes.adapter import ModelError
from probes.checking import correctness
from probes.checking.array_reference import create_reference, measure_rounding, widen
from probes.checking.deviation import Deviation
from probes.checking.output_check import compare_arrays
from probes.checking.rules import Rules
from probes.checking.stored_reference import Reference
from probes.shape import Shape

SHAPE = (8, 64)
#: Error of eager PyTorch in the tests; the outputs have unit variance.
EAGER = 1e-3
#: By dtype: the share of the RMS that is allowed next to three times eager's error.
SHARES = {"float64": 1e-8, "float32": 1e-5, "float16": 2**-11, "bfloat16": 2**-8}


def outputs(number: int, shape: tuple[int, ...] = SHAPE) -> Any:
    return np.random.default_rng([7, number]).standard_normal(shape)


def noise(size: float, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> Any:
    """Return values whose root mean square is `size` in every row."""
    return size * np.random.default_rng([9, seed]).choice([-1.0, 1.0], shape)


def make_reference(expected: list[list[Any]], eager: float = EAGER, **changes: Any) -> Reference:
    """Return a reference against which eager PyTorch has the error `eager` in every output."""
    produced = [
        [
            output + noise(eager, output.shape, 5) if output.dtype.kind == "f" else output
            for output in outputs
        ]
        for outputs in expected
    ]
    made = create_reference("float64", expected, produced, [[np.zeros(1)]] * len(expected), (64,))
    return dataclasses.replace(made, **changes)


def judge(
    reference: Reference, produced: list[list[Any]], thresholds: Rules | None = None
) -> tuple[str, Accuracy, str | None]:
    """Return the verdict, the accuracy and the reason."""
    record, reason = correctness.check_outputs(
        reference, produced, thresholds or rules(tolerance=0.0), Shape(SHAPE[0])
    )
    return record.accuracy_class, record.accuracy, reason


def check(*asked: Any) -> tuple[str, str]:
    """Return the verdict and the fault."""
    verdict, accuracy, _ = judge(*asked)
    return verdict, accuracy.fault


def allowed(output: Any, dtype: str, eager: float = EAGER) -> float:
    """Return the allowed error by the documented formula."""
    return float(3 * (1 + 3 / output.size) * eager + SHARES[dtype] * math.sqrt((output**2).mean()))


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize(("share", "verdict"), [(0.999, "exact"), (1.001, "incorrect")])
def test_an_output_is_exact_up_to_the_allowed_error(dtype: str, share: float, verdict: str) -> None:
    target = outputs(0)
    produced = [[target + noise(share * allowed(target, dtype))]]
    without_rows = rules(dtype, row_eager_times=100.0, tolerance=0.0)
    record, reason = correctness.check_outputs(
        make_reference([[target]]), produced, without_rows, Shape(16)
    )
    assert record.accuracy_class == verdict
    assert (reason is None) == (verdict == "exact")
    assert record.rmse == pytest.approx(share * allowed(target, dtype))
    assert record.rmse_eager == pytest.approx(EAGER)
    assert record.allowed == pytest.approx(allowed(target, dtype))
    assert (record.shape.batch_size, record.reference) == (16, "float64")
    assert record.compared_elements == target.size


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e9])
@pytest.mark.parametrize(("share", "verdict"), [(0.999, "exact"), (1.001, "incorrect")])
def test_the_scale_of_a_model_does_not_change_the_verdict(
    scale: float, share: float, verdict: str
) -> None:
    target = outputs(0)
    produced = target + noise(share * allowed(target, "float32"))
    reference = make_reference([[target * scale]], eager=EAGER * scale)
    without_rows = rules(row_eager_times=100.0, tolerance=0.0)
    assert check(reference, [[produced * scale]], without_rows)[0] == verdict


@pytest.mark.parametrize(
    ("batch_size", "times", "outcome"),
    [
        (1, 3.4, ("exact", "")),
        (1, 3.6, ("incorrect", "row-error")),
        (16, 2.2, ("incorrect", "row-error")),
    ],
)
def test_the_error_of_eager_in_few_elements_may_be_small_by_chance(
    batch_size: int, times: float, outcome: tuple[str, str]
) -> None:
    expected = [[np.full((batch_size, 1), 1.0 + number)] for number in range(4)]
    produced = [[output[0] * (1 + times * EAGER)] for output in expected]
    eager = [[output[0] * (1 + EAGER)] for output in expected]
    made = create_reference("float64", expected, eager, [[np.zeros(1)]] * 4)
    assert check(made, produced) == outcome


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda output: output * 1.02, "is 2.00e-02; 1.00e-02 is allowed"),
        (lambda output: output + np.pad([[0.5]], ((0, 63), (5, 58))), "5.00e-02 is allowed"),
    ],
)
def test_the_limit_that_rejects_an_output_is_named(change: Any, told: str) -> None:
    target = outputs(0, (64, 64))
    reference = make_reference([[target]], eager=1e-6)
    _, reason = correctness.check_outputs(reference, [[change(target)]], rules(), Shape(64))
    assert told in str(reason)


@pytest.mark.parametrize(
    ("error", "verdict"), [(3e-12, "exact"), (3e-8, "close"), (1e-6, "incorrect")]
)
def test_an_output_near_zero_by_chance_has_the_size_of_all_input_sets(
    error: float, verdict: str
) -> None:
    probabilities = [np.array([[each]]) for each in (3e-6, 5e-9, 9e-6, 2e-6)]
    reference = make_reference([[each] for each in probabilities], eager=1e-12)
    produced = [[each + error] for each in probabilities]
    assert check(reference, produced, rules(tolerance=0.01))[0] == verdict


def test_the_error_of_eager_in_few_elements_is_not_taken_for_another_input() -> None:
    expected = [[np.array([[1.0 + number * 1e-3]])] for number in range(4)]
    eager = [[output[0] + 2.4e-4] for output in expected]
    made = create_reference("float64", expected, eager, [[np.zeros(1)]] * 4)
    for error, outcome in ((8e-4, ("exact", "")), (9e-4, ("incorrect", "identity"))):
        produced = [[output[0] + error] for output in expected]
        assert check(made, produced, rules("bfloat16")) == outcome


@pytest.mark.parametrize(("error", "verdict"), [(2e-3, "exact"), (4e-3, "incorrect")])
def test_the_error_of_a_single_row_counts(error: float, verdict: str) -> None:
    target = outputs(0)
    produced = target.copy()
    produced[-1] += noise(error, (64,))
    fault = "row-error" if verdict == "incorrect" else ""
    assert check(make_reference([[target]]), [[produced]]) == (verdict, fault)


def turn_choices(output: Any, seed: int) -> Any:
    """Return `output` with large changes in a tenth of its elements, as from another expert."""
    turned = np.random.default_rng([11, seed]).random(output.shape) < 0.1
    return np.where(turned, output + 2.0, output)


def make_choosing_reference() -> tuple[Any, Reference]:
    """Return an output and its reference: few turned choices dominate eager PyTorch's error."""
    target = outputs(0)
    eager = turn_choices(target + noise(EAGER), seed=0)
    return target, create_reference("float64", [[target]], [[eager]], [[np.zeros(1)]])


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(1e-3, ("exact", "")), (2.9e-3, ("exact", "")), (3.2e-3, ("incorrect", "typical-error"))],
)
def test_turned_choices_do_not_hide_an_error_of_most_elements(
    error: float, outcome: tuple[str, str]
) -> None:
    target, reference = make_choosing_reference()
    produced = turn_choices(target + noise(error), seed=3)
    assert check(reference, [[produced]]) == outcome
    without = rules(tolerance=0.0, typical_eager_times=1e9)
    assert check(reference, [[produced]], without) == ("exact", "")


@pytest.mark.parametrize(
    ("has_choices", "seed", "fault"), [(True, 0, "typical-error"), (False, 3, "row-error")]
)
def test_what_rounding_changes_in_a_perturbation_is_allowed(
    *, has_choices: bool, seed: int, fault: str
) -> None:
    target, choosing = make_choosing_reference()
    reference = choosing if has_choices else make_reference([[target]])
    (expected,) = reference.outputs
    widened = dataclasses.replace(
        reference, outputs=[widen(expected, [target + noise(0.1)])], perturbations=1
    )
    produced = [[target + noise(0.09, seed=seed)]]
    assert check(reference, produced) == ("incorrect", fault)
    assert check(widened, produced) == ("exact", "")
    assert check(widened, [[target + noise(0.11)]])[0] == "incorrect"


def test_a_typical_error_within_the_tolerance_is_close() -> None:
    target, reference = make_choosing_reference()
    found = judge(reference, [[target + noise(5e-3)]], rules(tolerance=1e-2))
    assert (found[0], found[1].fault, found[2]) == ("close", "typical-error", None)


@pytest.mark.parametrize(
    ("error", "verdict"), [(0.9e-2, "close"), (1.1e-2, "incorrect"), (2e-3, "exact")]
)
def test_a_less_exact_output_is_close_within_the_tolerance(error: float, verdict: str) -> None:
    target = outputs(0, (8, 32))
    produced = target + noise(error * math.sqrt((target**2).mean()), (8, 32))
    assert check(make_reference([[target]]), [[produced]], rules())[0] == verdict


@pytest.mark.parametrize(("dtype", "unit"), [("float32", 1e-7), ("bfloat16", 3e-3)])
def test_large_values_do_not_hide_errors_of_small_ones(dtype: str, unit: float) -> None:
    boxes, scores = 600 * outputs(0, (8, 32)), outputs(1, (8, 8)) ** 2
    target = np.concatenate([boxes, scores], 1)
    eager, coarse = (target * (1 + noise(each, target.shape)) for each in (unit, 2 * unit + 4e-3))
    reference = create_reference("float64", [[target]], [[eager]], [[np.zeros(1)]])
    swapped, more = (np.concatenate([boxes, each], 1) for each in (scores[::-1], 1.2 * scores))
    assert check(reference, [[swapped]], rules(dtype)) == ("incorrect", "small-error")
    assert check(reference, [[more]], rules(dtype, row_tolerance=0.3))[0] in {"exact", "close"}
    assert compare_arrays(reference, rules(dtype), [swapped], [target]), "a race"
    assert check(reference, [[coarse]], rules(dtype))[0] in {"exact", "close"}


def test_the_larger_deviation_is_that_of_each_magnitude() -> None:
    one, other = (Deviation(by_magnitude=each) for each in ((1.0, 0.0), (0.0, 2.0)))
    assert one.or_larger(other).by_magnitude == (1.0, 2.0)


def test_other_classes_are_not_close() -> None:
    target = outputs(0)
    produced = target.copy()
    # The two largest classes of half the rows change places, which costs little error.
    for row in range(4):
        first, second = np.argsort(-target[row])[:2]
        produced[row, first] = target[row, second] = target[row, first] - 5e-2
        produced[row, second] = target[row, first]
    reference = make_reference([[target]], eager=1e-7)
    verdict, accuracy, reason = judge(reference, [[produced]], rules())
    assert (verdict, accuracy.fault) == ("incorrect", "row-error")
    assert "in 50% of the rows" in str(reason)
    verdict, accuracy, _ = judge(reference, [[target + noise(1e-3)]], rules())
    assert (verdict, accuracy.top1) == ("close", 1.0)


@pytest.mark.parametrize(("lead", "verdict"), [(0.035, "close"), (0.045, "incorrect")])
def test_a_flip_between_classes_counts_only_if_the_tolerance_does_not_cover_it(
    lead: float, verdict: str
) -> None:
    target = outputs(0)
    scale = math.sqrt((target**2).mean())
    first, second = np.argsort(-target[0])[:2]
    target[0, second] = target[0, first] - 1e-6
    produced = target + noise(3e-3 * scale)
    produced[0, second] = produced[0, first] + lead * scale
    found, accuracy, _ = judge(make_reference([[target]], eager=1e-7), [[produced]], rules())
    assert (found, accuracy.top1) == (verdict, 7 / 8)


@pytest.mark.parametrize(
    ("flipped", "thresholds", "verdict"),
    [
        (0, rules("bfloat16", tolerance=0.0), "exact"),
        (20, rules("bfloat16", tolerance=0.0), "exact"),
        (21, rules("bfloat16", tolerance=0.0), "incorrect"),
        (2, rules("float32", tolerance=0.0), "incorrect"),
        (2, rules("float32"), "close"),
    ],
)
def test_integers_are_judged_by_the_share_that_differs(
    flipped: int, thresholds: Rules, verdict: str
) -> None:
    target = np.arange(1000)
    produced = target.copy()
    produced[:flipped] += 1
    assert check(make_reference([[target]]), [[produced]], thresholds)[0] == verdict


def mask(output: Any, *columns: int, value: float = -math.inf) -> Any:
    """Return a copy with `value` in some columns."""
    copy = output.copy()
    copy[:, columns] = value
    return copy


@pytest.mark.parametrize(
    "value", [-math.inf, math.inf, float(np.finfo("float32").min), -1e9, -65504.0]
)
def test_an_output_with_masked_logits_is_compared_elsewhere(value: float) -> None:
    targets = [outputs(number) for number in range(2)]
    masked = functools.partial(mask, value=value)
    reference = make_reference([[masked(target, 3, 5)] for target in targets])
    of_sets = [(np.delete(each, (3, 5), 1) ** 2).sum() / each.size for each in targets]
    scales = [math.sqrt(max(each, sum(of_sets) / 2)) for each in of_sets]
    assert [each.scale for (each,) in reference.outputs] == pytest.approx(scales)
    for size, found in ((2 * EAGER, "exact"), (20 * EAGER, "incorrect")):
        produced = [[masked(target + noise(size), 3, 5)] for target in targets]
        assert check(reference, produced)[0] == found
    swapped = [[masked(target, 3, 5)] for target in reversed(targets)]
    assert check(reference, swapped) == ("incorrect", "identity")


@pytest.mark.parametrize("columns", [(), (3,), (3, 6), (3, 5, 6)], ids=str)
@pytest.mark.parametrize("value", [-math.inf, float(np.finfo("float32").min), -1e9])
def test_masked_logits_at_other_places_are_wrong(value: float, columns: tuple[int, ...]) -> None:
    target = outputs(0)
    reference = make_reference([[mask(target, 3, 5, value=value)]])
    verdict, fault = check(reference, [[mask(target, *columns, value=value)]], rules())
    assert verdict == "incorrect"
    assert fault == "not-finite" or math.isfinite(value)


def test_a_model_that_does_not_compute_numbers_is_refused() -> None:
    target = outputs(0)
    target[0, 0] = math.nan
    only_masks = (np.full(SHAPE, value) for value in (-math.inf, math.inf, np.finfo("float32").min))
    for output in (target, *only_masks):
        with pytest.raises(ModelError):
            create_reference("float64", [[output]], [[output]], [[np.zeros(1)]])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_single_non_finite_element_is_wrong(bad: float) -> None:
    produced = outputs(0)
    produced[3, 17] = bad
    reference = make_reference([[outputs(0)]])
    assert check(reference, [[produced]], rules()) == ("incorrect", "not-finite")
    record, _ = correctness.check_outputs(reference, [[produced]], rules(), Shape(8))
    assert json.loads(json.dumps(dataclasses.asdict(record), allow_nan=False))["rmse"] is None


@pytest.mark.parametrize(
    "produced",
    [[outputs(0)[:-1]], [outputs(0), outputs(0)], [], [outputs(0).T]],
    ids=["fewer elements", "one more", "none", "transposed"],
)
def test_outputs_of_other_shapes_are_wrong(produced: list[Any]) -> None:
    assert check(make_reference([[outputs(0)]]), [produced], rules()) == ("incorrect", "shape")


def nearly_equal(number: int) -> Any:
    """Return outputs that hardly depend on the input, as those of a fresh residual network."""
    return outputs(99) * 100 + outputs(number)


def test_the_same_output_for_every_input_is_wrong_however_small_the_error() -> None:
    expected = [[nearly_equal(number)] for number in range(4)]
    produced = [[nearly_equal(0)]] * 4
    coarse = rules("bfloat16", tolerance=0.5)
    assert check(make_reference(expected), produced, coarse) == ("incorrect", "same-output")
    memoised = [[nearly_equal(7)]] * 4
    assert check(make_reference(expected, eager=1e-6), memoised, coarse)[0] == "incorrect"
    constant = [[np.repeat(expected[0][0][:1], 8, 0)]] * 4
    assert check(make_reference(expected), constant, coarse) == ("incorrect", "same-output")


@pytest.mark.parametrize(
    "change",
    [
        lambda outputs: [outputs[number] for number in (1, 0, 2, 3)],
        lambda outputs: outputs[-1:] + outputs[:-1],
        lambda outputs: [[output[[1, 0, *range(2, 8)]]] for (output,) in outputs],
    ],
    ids=["two swapped", "the previous input's", "two rows swapped"],
)
def test_outputs_of_other_inputs_are_wrong_however_small_the_error(change: Any) -> None:
    expected = [[nearly_equal(number)] for number in range(4)]
    found = check(make_reference(expected), change(expected), rules("bfloat16"))
    assert found == ("incorrect", "identity")


@pytest.mark.parametrize(
    ("share", "outcome"), [(0.8, ("incorrect", "identity")), (1.5, ("exact", ""))]
)
def test_outputs_of_other_inputs_are_wrong_beyond_the_envelope(
    share: float, outcome: tuple[str, str]
) -> None:
    expected = [[nearly_equal(number)] for number in range(2)]
    reference = make_reference(expected)
    distance = math.sqrt(((expected[0][0] - expected[1][0]) ** 2).mean())
    rounded = [output[0] + noise(share * distance) for output in expected]
    widened = [widen(each, [array]) for each, array in zip(reference.outputs, rounded, strict=True)]
    # Errors of a row are judged by the envelope too; here only the other input is to count.
    thresholds = rules(tolerance=0.0, eager_times=1e9, row_eager_times=1e9, typical_eager_times=1e9)
    produced = [expected[1], expected[0]]
    assert check(dataclasses.replace(reference, outputs=widened), produced, thresholds) == outcome


def test_a_gain_close_to_one_is_not_taken_for_another_input() -> None:
    expected = [[nearly_equal(number)] for number in range(4)]
    produced = [[output[0] * 0.999] for output in expected]
    reference = make_reference(expected, eager=1e-2)
    assert check(reference, produced, rules("bfloat16"))[0] != "incorrect"


def test_an_output_of_zeros_is_not_checkable() -> None:
    zeros = np.zeros(SHAPE)
    reference = make_reference([[zeros], [zeros]], eager=0.0)
    assert check(reference, [[zeros], [zeros]]) == ("unchecked", "constant-output")
    assert check(reference, [[zeros], [zeros + 1e-30]])[0] == "incorrect"


@pytest.mark.parametrize("rows", [(0, 3), (3, 0), (2, 3)])
def test_outputs_of_several_lengths_may_be_empty(rows: tuple[int, int]) -> None:
    expected = [[outputs(number, (count, 64))] for number, count in enumerate(rows)]
    assert check(make_reference(expected, eager=0.0), expected) == ("exact", "")


def test_a_random_model_is_never_called_exact() -> None:
    reference = make_reference([[outputs(0)]], uncompared={0: "random"})
    assert check(reference, [[outputs(0)]]) == ("unchecked", "uncompared")
    assert check(reference, [[outputs(0) * np.nan]])[0] == "incorrect"


@pytest.mark.parametrize(("rounding", "verdict"), [(0.1, "exact"), (0.3, "unchecked")])
def test_an_output_that_rounding_dominates_is_not_judged(rounding: float, verdict: str) -> None:
    class Subject:
        dtype = "float32"

        def perturbed(self, inputs: list[Any], seed: int) -> list[Any]:
            return [outputs(0) + noise(rounding, seed=len(inputs) + seed)]

    limits = {"seeds": 3, "seconds": 60.0}
    found = measure_rounding(make_reference([[outputs(0)]]), Subject(), limits)
    assert check(found, [[outputs(0) + noise(0.01, seed=9)]])[0] == verdict


def test_the_same_output_is_correct_for_a_model_that_ignores_its_input() -> None:
    expected = [[outputs(0)], [outputs(0)]]
    assert check(make_reference(expected), expected)[0] == "exact"


def test_an_input_that_eager_computes_exactly_by_chance_is_no_ratio() -> None:
    targets = [outputs(0), outputs(1)]
    eager = [targets[0] + noise(EAGER), targets[1] + noise(EAGER / 100)]
    reference = create_reference(
        "float64", [[each] for each in targets], [[each] for each in eager], [[np.zeros(1)]] * 2
    )
    _, found, _ = judge(reference, [[each + noise(2 * EAGER)] for each in targets])
    assert found.ratio_to_eager == pytest.approx(2.0, rel=0.1)


def test_the_record_states_each_figure() -> None:
    target = outputs(0)
    scale = math.sqrt((target**2).mean())
    _, found, _ = judge(make_reference([[target]]), [[target + noise(2e-3)]])
    assert found.relative_error == pytest.approx(2e-3 / scale)
    assert found.relative_error_eager == pytest.approx(EAGER / scale)
    assert found.ratio_to_eager == pytest.approx(2.0)
    assert found.worst_element == pytest.approx(2e-3 / scale)
    assert found.cosine == pytest.approx(1 - 2e-6, abs=1e-6)
    assert found.top1 == 1.0
