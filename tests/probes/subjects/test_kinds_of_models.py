"""Kinds of models that the check of outputs must not misjudge; docs/method.md has their table."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import types
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import reference_cases
import workers
from lazy import equal_keys, torch

from probes.accuracy import Checked
from probes.adapter import ModelError, Workflow
from probes.checking import correctness
from probes.checking.program_cell import ProgramCell
from probes.runtime import cells
from probes.runtime.failures import FailureError
from probes.shape import Shape

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("here")]


class Case(reference_cases.Case):
    """A model with its reference, by which outputs are judged."""

    def judge(self, change: Callable[[int, Any], Any] = lambda _, array: array) -> Checked:
        """Return the verdict about outputs that `change` makes of number and eager's array."""
        produced = [
            [change(index, array.copy()) for index, array in enumerate(arrays)]
            for arrays in self.outputs
        ]
        rules = workers.rules(self.dtype, tolerance=0.0)
        return correctness.check_outputs(self.reference, produced, rules, Shape(2))[0]

    @property
    def elements(self) -> int:
        return sum(array.size for arrays in self.outputs for array in arrays)

    def judge_scaled(self, factor: Any = 0.9, *, index: int = 0) -> str:
        """Return the class if one output is scaled."""
        return self.judge(
            lambda number, array: array * factor if number == index else array
        ).accuracy_class


def make_case(function: str, **changes: Any) -> Case:
    return Case(**vars(reference_cases.make_case(function, **changes)))


@pytest.mark.parametrize(
    ("function", "state"),
    [
        ("returns_changed_buffer", "kept"),
        ("returns_view_of_buffer", "kept"),
        ("keeps_hidden", "hidden"),
        ("counts", "count"),
        ("counts_in_its_class", "Net.calls"),
        ("remembers", "seen"),
        ("keeps_in_a_global", "STATE"),
        ("keeps_in_an_object", "SHARED.value"),
        ("counts_by_an_iterator", "COUNTER"),
        ("changes_a_parameter_slightly", "b.bias"),
        ("in_closure", "memory"),
        ("strides_attribute", "h"),
        ("counts_in_a_function", "calls"),
        ("keeps_in_a_default", "keeps_in_a_default"),
        ("keeps_in_slots", "slots.first"),
        ("counts_in_a_private_slot", "private._Private__calls"),
        ("replaces_a_pair", "pair"),
        ("rolls", "ring"),
        ("counts_by_a_generator", "generator"),
        ("cycles_in_a_list", "iterator"),
        ("counts_in_a_context", "VARIABLE"),
        ("counts_in_a_thread", "LOCAL.calls"),
        ("counts_in_a_partial", "partial"),
        ("counts_in_bytes", "bytes"),
        ("counts_in_the_environment", "os.environ"),
        ("remembers_a_result", "first_mean"),
        ("changes_late", "count"),
        ("in_a_hook", "calls"),
        ("keeps_in_an_input", "example input"),
        ("keeps_by_position", "kept"),
        ("keeps_pages", "pages"),
        ("switches_its_mode", "training"),
    ],
)
def test_a_state_is_refused_by_its_name(function: str, state: str) -> None:
    with pytest.raises(ModelError, match=rf"[ (]{re.escape(state)}\b"):
        make_case(function)


@pytest.mark.parametrize(
    ("function", "changed"),
    [
        ("overwrites_buffer", {"kept"}),
        ("writes_into_a_frame", {"kept"}),
        ("refuses_others", {"count"}),
        ("logs", {"count", "HISTORY", "last"}),
        ("prints", {"printed text or files"}),
        ("caches", set()),
        ("seeds_itself", set()),
        ("logs_in_a_default_dict", {"default"}),
        ("writes_to_scratch", {"h"}),
        ("remembers_a_table", set()),
        ("returns_its_input", set()),
        ("fills_its_input", {"input 1"}),
        ("reshapes_its_input", {"input 1"}),
        ("reads_what_a_hook_writes", {"features"}),
    ],
)
def test_what_no_later_call_reads_is_accepted_and_named(function: str, changed: set[str]) -> None:
    case = make_case(function)
    assert not case.reference.uncompared
    found = case.judge()
    assert (found.accuracy_class, {*found.accuracy.changed_states}) == ("exact", changed)
    assert case.judge(lambda _, array: array * 1.01).accuracy_class == "incorrect"


@pytest.mark.parametrize(
    ("function", "random"),
    [
        ("samples", {0}),
        ("samples_by_numpy", {0}),
        ("samples_by_python", {0}),
        ("samples_by_a_new_generator", {0}),
        ("samples_by_a_generator", {0}),
        ("samples_without_a_seed", {0}),
        ("drops", {1}),
        ("samples_once", {1}),
        ("counts_and_draws", {1}),
        ("takes_some", {1}),
        ("returns_distribution", {1}),
        ("draws_from_the_system", {1}),
        ("draws_in_some_calls", {1}),
        ("hashes", {1}),
        ("returns_its_count", {1}),
    ],
)
def test_outputs_that_repeat_are_compared_beside_random_ones(
    function: str, random: set[int]
) -> None:
    case = make_case(function)
    assert case.reference.uncompared == dict.fromkeys(random, "random")
    assert not case.reference.findings.draws
    right = case.judge()
    assert (right.accuracy_class, right.accuracy.uncompared) == ("unchecked", {"random": 1})
    wrong = case.judge(lambda index, array: array if index in random else array * 0.9)
    assert wrong.accuracy_class == "incorrect"
    if case.outputs[0][max(random)].dtype.kind == "f":
        broken = case.judge(lambda index, array: array * np.nan if index in random else array)
        assert broken.accuracy_class == "incorrect"


@pytest.mark.parametrize(
    ("function", "is_wrong"),
    [
        ("samples", True),
        ("samples_by_numpy", True),
        ("drops", True),
        ("draws_for_a_row", True),
        ("draws_in_some_calls", False),
        ("seeds_itself", False),
        ("overwrites_buffer", False),
    ],
)
def test_a_program_that_has_stopped_drawing_is_wrong(function: str, is_wrong: bool) -> None:
    """As an exporter leaves out dropout, or keeps the numbers of its own call."""
    case = make_case(function)
    sent: list[Checked] = []
    job = cells.Job(
        workers.subject_request({}, pathlib.Path()),
        cast("Any", types.SimpleNamespace(send=sent.append)),
        cast("Any", None),
    )

    def check(call: Callable[[int], list[Any]]) -> Checked:
        numbers, program = list(range(len(case.inputs))), cast("Any", workers.FakeProgram(call))
        rules = workers.rules(case.dtype, tolerance=0.0)
        cell = ProgramCell(Workflow(program), Shape(2), program, numbers, case.reference, rules)
        return cells.check_cell(cell, job)

    with torch.no_grad():
        assert check(lambda number: case.subject.run(case.inputs[number])) is sent[-1]
    if not is_wrong:
        check(case.outputs.__getitem__)
        return
    with pytest.raises(FailureError) as caught:
        check(case.outputs.__getitem__)
    assert (caught.value.failure.status, sent[-1].accuracy_class) == ("incorrect", "incorrect")
    assert "outside of forward" in (caught.value.failure.fix or "")


@pytest.mark.parametrize("function", ["draws_for_a_row", "joins_mean_and_sample"])
def test_elements_that_repeat_are_compared_beside_random_ones(function: str) -> None:
    case = make_case(function)
    assert case.reference.uncompared == {0: "partly-random"}
    right = case.judge()
    assert (right.accuracy_class, right.accuracy.fault) == ("unchecked", "uncompared")
    assert case.judge_scaled() == "incorrect"
    changes = {
        "draws_for_a_row": lambda _, array: np.stack([array[0], array[1] + 1]),
        "joins_mean_and_sample": lambda _, array: np.concatenate(
            [array[:, :16], -array[:, 16:]], 1
        ),
    }
    assert case.judge(changes[function]).accuracy_class == "unchecked"


@pytest.mark.parametrize(
    "function",
    [
        *("seeds_itself", "makes_a_generator", "doubles_in_double", "scales_in_single"),
        *("reads_bits", "draws_by_dtype", "takes_no_double"),
    ],
)
def test_a_reference_on_another_path_is_not_taken(function: str) -> None:
    case = make_case(function)
    assert case.reference.name == "float32"
    assert case.reference.findings.draws == (function == "seeds_itself")
    rounded = case.judge(lambda _, array: array * (1 + 1e-7) if array.dtype.kind == "f" else array)
    assert rounded.accuracy_class == "exact"
    noise = np.random.default_rng(0)
    for change in (
        lambda _, array: array * 0,
        lambda _, array: array * 2,
        lambda _, array: array + 0.01 * noise.standard_normal(array.shape),
    ):
        assert case.judge(change).accuracy_class == "incorrect"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_path_that_differs_by_less_than_a_tenth_is_found(dtype: str) -> None:
    case = make_case("scales_by_the_default", dtype=dtype)
    assert case.reference.name in {dtype, "float32"}
    assert case.judge().accuracy_class == "exact"
    assert case.judge_scaled(0.95) == "incorrect"


def test_integers_that_rounding_changes_are_compared_as_numbers() -> None:
    case = make_case("counts_brightness", dtype="float16")
    assert case.judge().accuracy_class == "exact"
    assert case.judge(lambda _, array: array + 2).accuracy_class == "exact"
    assert case.judge_scaled(0.9) == "incorrect"
    assert case.judge_scaled(0.0) == "incorrect"


@pytest.mark.parametrize(
    "function",
    [
        *(
            "returns_boxes",
            "returns_number",
            "returns_array",
            "returns_slots",
            "returns_deque",
            "returns_callable",
        ),
        *("returns_spectrum", "returns_sparse", "returns_nested"),
        *("returns_conjugate", "returns_float8", "masks_by_infinity", "rounds_inside"),
    ],
)
def test_tensors_in_own_classes_and_unusual_numbers_are_compared(function: str) -> None:
    case = make_case(function)
    assert case.judge().accuracy_class == "exact"
    for index in range(len(case.outputs[0])):
        assert case.judge_scaled(index=index) == "incorrect"


@pytest.mark.parametrize(
    ("function", "unseen"),
    [("returns_opaque", "Opaque"), ("returns_chain", "values in more than 16 containers")],
)
def test_values_that_cannot_be_seen_are_named(function: str, unseen: str) -> None:
    case = make_case(function)
    found = case.judge()
    assert (found.accuracy_class, found.accuracy.unseen) == ("unchecked", (unseen,))
    assert case.judge(lambda _, array: array * 0.9).accuracy_class == "incorrect"


def test_numbers_flags_and_texts_are_compared() -> None:
    case = make_case("returns_values")
    rows, tensor, *others = case.outputs[0]
    assert (rows, tensor.shape, len(others)) == (2, (2, 16), 5)
    assert (case.judge().accuracy_class, case.judge().accuracy.unseen) == ("exact", ())
    for wrong in range(7):

        def change(index: int, array: Any, by: int = wrong) -> Any:
            return array * 2 + 1 if index == by else array

        assert case.judge(change).accuracy_class == "incorrect"


def test_values_are_not_expected_of_stacks_that_return_tensors_alone() -> None:
    case = make_case("returns_values")
    tensors = [arrays[1:2] for arrays in case.outputs]
    rules = workers.rules(case.dtype, tolerance=0.0)
    assert correctness.check_outputs(case.reference, tensors, rules, Shape(2))[1] is None
    some = [arrays[:2] for arrays in case.outputs]
    found, _ = correctness.check_outputs(case.reference, some, rules, Shape(2))
    assert found.accuracy.fault == "shape"


def test_complex_outputs_are_compared_in_both_parts() -> None:
    case = make_case("is_complex")
    assert case.judge().accuracy_class == "exact"
    for wrong in ([0.99, 1.0], [1.0, 0.99]):
        assert case.judge_scaled(np.array(wrong)) == "incorrect"


@pytest.mark.parametrize(
    "function",
    [
        *("sorts_equal_keys", "takes_the_median", "takes_the_fourth", "takes_ten"),
        *("takes_the_largest_of_all", "sorts_flags", "is_all_ties"),
    ],
)
def test_places_of_equal_keys_may_be_others(function: str) -> None:
    case = make_case(function)
    assert case.judge().accuracy_class == "exact"
    assert not case.reference.uncompared
    # The order of equal values in another program.
    with torch.inference_mode(), equal_keys.OtherOrder(99):
        other = [case.subject.run(each) for each in case.inputs]
    assert any(
        (one != two).any()
        for ones, twos in zip(case.outputs, other, strict=True)
        for one, two in zip(ones, twos, strict=True)
    )
    assert dataclasses.replace(case, outputs=other).judge().accuracy_class == "exact"
    wrong = case.judge(lambda _, array: array + 99 if array.dtype.kind == "i" else array)
    assert wrong.accuracy_class == "incorrect"


def test_a_place_is_not_taken_twice() -> None:
    case = make_case("takes_ten")
    outputs = [[array.copy() for array in arrays] for arrays in case.outputs]
    for values, places in outputs:
        is_tied = values[:, -1] == values[:, -2]
        places[is_tied, -1] = places[is_tied, -2]
    assert any((ones[1] != twos[1]).any() for ones, twos in zip(outputs, case.outputs, strict=True))
    assert dataclasses.replace(case, outputs=outputs).judge().accuracy_class == "incorrect"


@pytest.mark.parametrize("returns_places", [False, True])
def test_orders_are_tried_where_a_model_uses_places(returns_places: bool) -> None:
    """Not for poolings, whose places are mostly dropped: an order of large inputs takes seconds."""
    values, orders = torch.zeros(1, 1, 4, 4), 0

    def call() -> list[Any]:
        nonlocal orders
        orders += 1
        pooled, places = torch.nn.functional.max_pool2d(values, 2, return_indices=True)
        return [pooled.numpy(), *([places.clone().numpy()] if returns_places else [])]

    masks = equal_keys.find_tied([np.zeros((1, 1, 2, 2))] * (1 + returns_places), call)
    assert [mask.all() for mask in masks] == [False, True][: len(masks)]
    assert orders == (equal_keys.ORDERS if returns_places else 1)


def test_what_ties_choose_is_left_out() -> None:
    case = make_case("gathers_by_ties")
    assert case.judge().compared_elements < case.elements
    assert case.judge(lambda index, array: array * (0.9 if index else 1)).accuracy_class == (
        "incorrect"
    )


def test_a_stable_sort_has_one_order() -> None:
    case = make_case("sorts_stably")
    assert case.judge().accuracy_class == "exact"
    assert case.judge().compared_elements == case.elements


@pytest.mark.parametrize(
    ("function", "uncompared"),
    [
        ("finds_no_boxes", {"empty": 2}),
        ("lists_nothing", {"empty": 2}),
        ("finds_nothing", {"empty": 1}),
        ("is_empty", {"empty": 2}),
    ],
)
def test_an_output_of_which_nothing_is_compared_is_not_exact(
    function: str, uncompared: dict[str, int]
) -> None:
    case = make_case(function)
    found = case.judge()
    assert (found.accuracy_class, found.accuracy.fault) == ("unchecked", "uncompared")
    assert found.accuracy.uncompared == uncompared
    if function != "is_empty":
        assert case.judge(lambda _, array: array * 0.9).accuracy_class == "incorrect"
    more = case.judge(lambda _, array: np.zeros((3, *array.shape[1:])) if not array.size else array)
    assert (more.accuracy_class, more.accuracy.fault) == ("incorrect", "shape")


@pytest.mark.parametrize(("function", "rounding"), [("rounds_inside", 1e-7), ("autocasts", 2e-3)])
def test_a_model_that_is_slow_in_float64_is_its_own_reference(
    function: str, rounding: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding in the precision in which it computes is right, even if its weights have more."""
    assert make_case(function).reference.name == "float64"
    for limit in ("MOST_SECONDS", "MOST_TIMES"):
        monkeypatch.setattr(f"probes.subjects.higher_precision.{limit}", 0.0)
    case = make_case(function)
    assert case.reference.name == "float32"
    generator = np.random.default_rng(0)

    def round_otherwise(_index: int, array: Any) -> Any:
        return array * (1 + rounding * generator.standard_normal(array.shape))

    assert case.judge(round_otherwise).accuracy_class != "incorrect"
    assert case.judge_scaled(0.9) == "incorrect"
