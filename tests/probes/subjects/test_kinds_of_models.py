"""Kinds of models that the check of outputs must not misjudge; docs/method.md has their table."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import workers
from kinds_source import MODELS
from lazy import lazy

from probes import protocol
from probes.adapter import ModelError
from probes.checking import array_reference, correctness, dispatch
from probes.checking.array_reference import Reference
from probes.wire.checks import Checked
from probes.wire.shape import Shape

torch = lazy("torch")
torch_subject = lazy("probes.subjects.torch_subject")
pytorch_eager = lazy("probes.workflows.pytorch_eager")

pytestmark = pytest.mark.stack


def request_for(function: str, directory: pathlib.Path, **changes: Any) -> protocol.Request:
    (directory / "kinds.py").write_text(MODELS)
    return workers.make_request(
        pathlib.Path("x.py"),
        directory,
        subject={"kind": "factory", "name": f"{directory / 'kinds.py'}:of_{function}"},
        dtype="native",
        batch_sizes=[2],
        input_sets=4,
        shared_directory=str(directory),
        **changes,
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with its reference, by which outputs are judged."""

    reference: Reference
    #: Eager PyTorch's by input set.
    outputs: list[list[Any]]

    def judge(self, change: Callable[[int, Any], Any] = lambda _, array: array) -> Checked:
        """Return the verdict about outputs that `change` makes of number and eager's array."""
        produced = [
            [change(index, array.copy()) for index, array in enumerate(arrays)]
            for arrays in self.outputs
        ]
        rules = workers.rules("float32", tolerance=0.0)
        return correctness.check_outputs(self.reference, produced, rules, Shape(2))[0]


def make_case(function: str, directory: pathlib.Path) -> Case:
    request = request_for(function, directory)
    subject = torch_subject.open_torch_subject(request)
    inputs = [subject.inputs(2, number) for number in range(request.input_sets)]
    file = dispatch.reference_file(request, Shape(2))
    with torch.inference_mode():
        program = pytorch_eager.build(subject, inputs[0], request)
        dispatch.make_reference(pytorch_eager, subject, program, inputs, file, request)
        found = [program.collect(program(program.feed(each))) for each in inputs]
    return Case(array_reference.load_reference(file), found)


@pytest.mark.parametrize(
    ("function", "state"),
    [
        ("returns_changed_buffer", "kept"),
        ("returns_view_of_buffer", "kept"),
        ("keeps_hidden", "hidden"),
        ("counts", "count"),
        ("counts_in_its_class", "Net.calls"),
        ("remembers", "seen"),
        ("replaces_in_a_list", "seen"),
        ("remembers_globally", "HISTORY"),
        ("keeps_in_a_global", "STATE"),
        ("keeps_in_an_object", "SHARED.value"),
        ("counts_by_an_iterator", "COUNTER"),
        ("changes_a_parameter", "a.weight"),
        ("changes_a_parameter_slightly", "b.bias"),
        ("keeps_the_first_call", "first"),
        ("in_closure", "memory"),
    ],
)
def test_a_state_is_refused_by_its_name(function: str, state: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ModelError, match=rf"\b{re.escape(state)}\b"):
        make_case(function, tmp_path)


@pytest.mark.parametrize("function", ["overwrites_buffer", "logs", "caches", "seeds_itself"])
def test_what_no_later_call_reads_is_no_state(function: str, tmp_path: pathlib.Path) -> None:
    case = make_case(function, tmp_path)
    assert not case.reference.uncompared
    assert case.judge().accuracy_class == "exact"
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
    ],
)
def test_outputs_that_repeat_are_compared_beside_random_ones(
    function: str, random: set[int], tmp_path: pathlib.Path
) -> None:
    case = make_case(function, tmp_path)
    assert case.reference.uncompared == dict.fromkeys(random, "random")
    right = case.judge()
    assert (right.accuracy_class, right.accuracy.uncompared) == ("unchecked", {"random": 1})
    wrong = case.judge(lambda index, array: array if index in random else array * 0.9)
    assert wrong.accuracy_class == "incorrect"
    broken = case.judge(lambda index, array: array * np.nan if index in random else array)
    assert broken.accuracy_class == "incorrect"


@pytest.mark.parametrize(
    "function", ["seeds_itself", "makes_a_generator", "doubles_in_double", "scales_in_single"]
)
def test_a_reference_on_another_path_is_not_taken(function: str, tmp_path: pathlib.Path) -> None:
    case = make_case(function, tmp_path)
    assert case.reference.name == "float32"
    assert case.reference.draws == (function == "seeds_itself")
    assert case.judge(lambda _, array: array * (1 + 1e-7)).accuracy_class == "exact"
    noise = np.random.default_rng(0)
    for change in (
        lambda _, array: array * 0,
        lambda _, array: array * 2,
        lambda _, array: array + 0.01 * noise.standard_normal(array.shape),
    ):
        assert case.judge(change).accuracy_class == "incorrect"


def test_rounding_inside_of_a_model_is_rounding(tmp_path: pathlib.Path) -> None:
    case = make_case("rounds_inside", tmp_path)
    assert case.reference.name == "float64"
    assert case.judge().accuracy_class == "exact"
    assert case.judge(lambda _, array: array * 0).accuracy_class == "incorrect"


def test_tensors_in_own_classes_are_compared(tmp_path: pathlib.Path) -> None:
    for function in ("returns_boxes", "returns_array"):
        case = make_case(function, tmp_path)
        assert case.judge().accuracy_class == "exact"
        wrong = case.judge(lambda index, array: array * (0.9 if index == 1 else 1.0))
        assert wrong.accuracy_class == "incorrect"


@pytest.mark.parametrize(
    ("function", "unseen"), [("returns_opaque", "Opaque"), ("returns_number", "float")]
)
def test_values_that_cannot_be_seen_are_named(
    function: str, unseen: str, tmp_path: pathlib.Path
) -> None:
    case = make_case(function, tmp_path)
    found = case.judge()
    assert (found.accuracy_class, found.accuracy.unseen) == ("unchecked", (unseen,))
    assert case.judge(lambda _, array: array * 0.9).accuracy_class == "incorrect"


def test_complex_outputs_are_compared_in_both_parts(tmp_path: pathlib.Path) -> None:
    case = make_case("is_complex", tmp_path)
    assert case.judge().accuracy_class == "exact"
    for wrong in ([0.99, 1.0], [1.0, 0.99]):

        def change(index: int, array: Any, by: Any = wrong) -> Any:
            return array * np.array(by) if index == 0 else array

        assert case.judge(change).accuracy_class == "incorrect"


def test_places_of_equal_keys_may_be_others(tmp_path: pathlib.Path) -> None:
    case = make_case("sorts_equal_keys", tmp_path)
    found = case.judge()
    assert found.accuracy_class == "exact"
    assert found.accuracy.tied_elements
    reversed_sets = []
    for keys, places in case.outputs:
        other = places.copy()
        for row, values in enumerate(keys):
            for value in set(values):
                group = values == value
                other[row, group] = places[row, group][::-1]
        assert (other != places).any()
        reversed_sets.append([keys, other])
    assert dataclasses.replace(case, outputs=reversed_sets).judge().accuracy_class == "exact"
    assert case.judge(lambda _, array: array[..., ::-1]).accuracy_class == "incorrect"


def test_a_constant_row_has_no_largest_element(tmp_path: pathlib.Path) -> None:
    case = make_case("takes_the_largest_of_constants", tmp_path)

    def change(index: int, array: Any) -> Any:
        if index == 0:
            array[:2] = 9
        return array

    assert case.judge(change).accuracy_class == "exact"
    assert case.judge(lambda index, array: array + (index == 0)).accuracy_class == "incorrect"


def test_what_ties_choose_is_left_out(tmp_path: pathlib.Path) -> None:
    case = make_case("gathers_by_ties", tmp_path)
    assert case.judge().accuracy.tied_elements
    assert case.judge(lambda index, array: array * (0.9 if index else 1)).accuracy_class == (
        "incorrect"
    )


def test_a_stable_sort_has_one_order(tmp_path: pathlib.Path) -> None:
    case = make_case("sorts_stably", tmp_path)
    assert case.judge().accuracy_class == "exact"
    assert not case.judge().accuracy.tied_elements


@pytest.mark.parametrize(
    ("function", "uncompared"),
    [
        ("is_all_ties", {"tied": 1}),
        ("finds_nothing", {"empty": 1}),
        ("is_empty", {"empty": 2}),
    ],
)
def test_an_output_of_which_nothing_is_compared_is_not_exact(
    function: str, uncompared: dict[str, int], tmp_path: pathlib.Path
) -> None:
    case = make_case(function, tmp_path)
    found = case.judge()
    assert (found.accuracy_class, found.accuracy.fault) == ("unchecked", "uncompared")
    assert found.accuracy.uncompared == uncompared
    if function != "is_empty":
        wrong = case.judge(lambda index, array: array if index else array * 0.9)
        assert wrong.accuracy_class == "incorrect"
    more = case.judge(lambda _, array: np.zeros((3, *array.shape[1:])) if not array.size else array)
    assert (more.accuracy_class, more.accuracy.fault) == (
        ("unchecked", "uncompared") if function == "is_all_ties" else ("incorrect", "shape")
    )
