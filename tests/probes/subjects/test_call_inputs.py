"""Inputs of any structure are fed as a list of tensors, large batches in parts."""

from __future__ import annotations

import collections
import dataclasses
import logging
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from lazy import call_inputs, factory, row_parts, torch, transformers
from reference_cases import Factories

from probes.adapter import ModelError

pytestmark = pytest.mark.stack


def recorder() -> Any:
    """Make a module that returns its inputs."""
    module = torch.nn.Module()
    module.forward = lambda *arguments, **keywords: (arguments, keywords)
    return module


class Pair(NamedTuple):
    """Inputs by name."""

    first: Any
    second: Any


@dataclasses.dataclass
class Batch:
    """Inputs that are counted when they are made."""

    rows: Any
    scale: float = 1.0

    def __post_init__(self) -> None:
        self.count = len(self.rows)


@dataclasses.dataclass(frozen=True)
class Image:
    """An input that is changed when it is made."""

    pixels: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "pixels", self.pixels / 255)


@pytest.fixture
def one() -> Any:
    return torch.ones(2, 3)


@pytest.fixture
def two() -> Any:
    return torch.zeros(2, 4)


def test_positional_tensors_need_no_wrapper(one: Any, two: Any) -> None:
    module = recorder()
    found, tensors = call_inputs.flatten(module, (one, two), {})
    assert found is module
    assert [tensor.shape for tensor in tensors] == [one.shape, two.shape]


def change_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the value with other tensors in its containers."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: change_tensors(each, change) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(change_tensors(each, change) for each in value)
    return value


@pytest.mark.parametrize(
    "inputs",
    [
        lambda one, two: ((), {"ids": one, "mask": two}),
        lambda one, two: ((one,), {"mask": two}),
        lambda one, two: (({"image": one, "text": two},), {}),
        lambda one, two: (([one, (two, None)], 3), {"flag": True, "more": {"deep": [one]}}),
    ],
    ids=["keywords", "both", "dictionary", "nested with constants"],
)
def test_every_tensor_returns_to_its_place(inputs: Callable[..., Any], one: Any, two: Any) -> None:
    arguments, keywords = inputs(one, two)
    module, tensors = call_inputs.flatten(recorder(), arguments, keywords)
    found = module(*(tensor * 2 + 1 for tensor in tensors))
    expected = change_tensors((arguments, keywords), lambda tensor: (tensor * 2 + 1).tolist())
    assert change_tensors(found, torch.Tensor.tolist) == expected


def test_named_tuples_and_dataclasses_are_made_of_tensors(one: Any, two: Any) -> None:
    # A dataclass that is a dictionary, and a mapping with attributes.
    output = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=one)
    encoding = transformers.BatchEncoding({"input_ids": one})
    arguments = (Pair(one, [two]), Batch(one, 0.5), output, encoding)
    module, tensors = call_inputs.flatten(recorder(), arguments, {})
    (pair, batch, output, encoding), _ = module(*(tensor + 1 for tensor in tensors))
    assert torch.equal(output[0], one + 1)
    assert torch.equal(encoding.input_ids, one + 1)
    assert type(pair) is Pair
    assert torch.equal(pair.second[0], two + 1)
    assert (batch.count, batch.scale) == (2, 0.5)


def test_what_a_dataclass_changes_is_changed_once(one: Any) -> None:
    module, tensors = call_inputs.flatten(recorder(), (Image(one),), {})
    (image,), _ = module(*tensors)
    assert torch.equal(image.pixels, one / 255)


@pytest.mark.parametrize(
    "put",
    [
        lambda tensor: types.SimpleNamespace(nodes={"x": [tensor]}),
        lambda tensor: collections.deque([(tensor, 1)]),
        lambda tensor: type("Rows", (list,), {})([tensor]),
    ],
    ids=["SimpleNamespace", "deque", "list"],
)
def test_an_object_is_refused_if_it_has_tensors(put: Callable[[Any], Any], one: Any) -> None:
    with pytest.raises(ModelError, match=type(put(one)).__name__):
        call_inputs.flatten(recorder(), (one, put(one)), {})
    without = put(logging.getLogger())
    without_tensors, _ = call_inputs.flatten(recorder(), (one, without), {})
    assert without_tensors(one)[0][1] is without


def test_a_factory_may_return_keyword_inputs(one: Any, two: Any) -> None:
    module = recorder()
    for returned, expected in (
        ((module, collections.UserDict(ids=one)), ((), {"ids": one})),
        ((module, one), ((one,), {})),
        ((module, {"ids": one}), ((), {"ids": one})),
        ((module, (one,), {"mask": two}), ((one,), {"mask": two})),
    ):
        assert factory.check_returned(returned, "file.py:make")[1:] == expected


def test_anything_else_is_refused(one: Any) -> None:
    module = recorder()
    for returned in ((module, 3), (module,), (one, one), None):
        with pytest.raises(ModelError):
            factory.check_returned(returned, "file.py:make")
    for third in (one, {3: one}):
        with pytest.raises(ModelError, match="third value"):
            factory.check_returned((module, one, third), "file.py:make")


def draw_like(example: Any, **fields: Any) -> Any:
    (made,) = factory.arguments_like((example,), [64], **fields)
    return made.draw(np.random.default_rng(0), 64)


@pytest.mark.parametrize("name", ["bool", "int64"])
def test_a_mask_of_ones_gets_rows_that_end_early(name: str) -> None:
    drawn = draw_like(torch.ones(2, 16, dtype=getattr(torch, name)))
    lengths = drawn.astype(int).sum(-1)
    assert drawn.shape == (64, 16)
    assert 8 <= lengths.min() < lengths.max() <= 16
    # The ones come first in each row.
    assert (drawn[:, 0] == 1).all()
    assert (np.diff(drawn.astype(int), axis=-1) <= 0).all()


@pytest.mark.parametrize(("value", "shape"), [(0, (2, 16)), (1, (4,))])
def test_other_constant_integers_stay_as_they_are(value: int, shape: tuple[int, ...]) -> None:
    assert (draw_like(torch.full(shape, value)) == value).all()


@pytest.mark.parametrize(
    ("example", "columns"),
    [
        ([[0, 40, 7], [3, 60, 7]], [{0, 3}, {40, 60}, {7}]),
        ([[False, False, True], [False, True, True]], [{False}, {False, True}, {True}]),
        # Rows that are equal tell nothing of a position.
        ([[2, 9, 5], [2, 9, 5]], [{*range(2, 10)}] * 3),
    ],
)
def test_integers_are_drawn_from_the_values_at_their_position_or_from_the_range(
    example: list[list[int]], columns: list[set[int]]
) -> None:
    assert [set(column.tolist()) for column in draw_like(torch.tensor(example)).T] == columns


def test_floating_point_numbers_stay_in_the_range_of_the_example() -> None:
    drawn = draw_like(torch.linspace(0.25, 1, 8).reshape(2, 4))
    assert 0.25 <= drawn.min() < drawn.max() <= 1
    # An example without a range has none to stay in.
    assert len(np.unique(draw_like(torch.zeros(2, 4)))) > 1


def test_missing_values_stay_at_the_positions_of_the_example() -> None:
    drawn = draw_like(torch.tensor([[1.0, np.nan, 3.0], [2.0, np.nan, np.inf]]))
    assert np.isfinite(drawn[:, 0]).all()
    assert np.isnan(drawn[:, 1]).all()
    assert {True, False} == {*np.isinf(drawn[:, 2])}
    # One of a mask says which value another place has.
    assert {*np.unique(draw_like(torch.tensor([[0.0, -np.inf], [0.0, 0.0]])))} == {0.0, -np.inf}


@pytest.mark.parametrize("name", ["float64", "bfloat16", "float8_e4m3fn"])
def test_fixed_values_are_the_rows_of_the_example(name: str) -> None:
    example = torch.randn(3, 4, dtype=torch.float64).to(getattr(torch, name))
    drawn = draw_like(example, fixed=True)
    assert (drawn[:3] == example.double().numpy()).all()
    assert (drawn[3:6] == drawn[:3]).all()
    assert draw_like(example).shape == (64, 4)


ROWS = 7
INPUTS = [np.arange(ROWS * 2, dtype="float32").reshape(ROWS, 2), np.array([10.0, 20.0])]
BATCHED = [True, False]


class SmallMemory:
    """Adds its second input to each row of the first; only so many rows fit."""

    def __init__(self, most_rows: int) -> None:
        self.most_rows = most_rows
        self.rows: list[int] = []

    def __call__(self, inputs: list[Any]) -> list[Any]:
        self.rows.append(len(inputs[0]))
        if len(inputs[0]) > self.most_rows:
            raise torch.OutOfMemoryError("no memory for so many rows")
        return [inputs[0] + inputs[1]]


@pytest.mark.parametrize(
    ("most_rows", "calls"), [(ROWS, [ROWS]), (4, [7, 4, 3]), (3, [7, 4, 2, 2, 2, 1])]
)
def test_parts_are_halved_until_they_fit(most_rows: int, calls: list[int]) -> None:
    run = SmallMemory(most_rows)
    can_divide = pytest.fail if most_rows == ROWS else lambda: True
    (output,) = row_parts.run_within_memory(run, INPUTS, BATCHED, can_divide)
    assert run.rows == calls
    assert (output == INPUTS[0] + INPUTS[1]).all()


@pytest.mark.parametrize(("most_rows", "can_divide"), [(4, False), (0, True)])
def test_memory_that_parts_do_not_save_is_an_error(most_rows: int, can_divide: bool) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        row_parts.run_within_memory(SmallMemory(most_rows), INPUTS, BATCHED, lambda: can_divide)


@pytest.mark.parametrize(
    ("run", "independent"),
    [
        (lambda arrays: [arrays[0] * 2], True),
        (lambda arrays: [arrays[0] * (1 + 1e-7 * len(arrays[0]))], True),
        (lambda arrays: [arrays[0] - arrays[0].mean(axis=0)], False),
        (lambda arrays: [arrays[0] @ arrays[0].T], False),
    ],
    ids=["scaled", "rounded", "centred", "similarities"],
)
def test_independent_rows_have_the_same_outputs_in_halves(run: Any, independent: bool) -> None:
    epsilon = float(np.finfo("float32").eps)
    assert row_parts.has_uncoupled_rows(run, INPUTS[:1], [True], epsilon) is independent


MODELS = """
import torch


class Model(torch.nn.Module):
    def __init__(self, centred):
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)
        self.centred = centred

    def forward(self, x):
        if x.dtype == torch.float64 and len(x) > 2:
            raise torch.OutOfMemoryError("a batch in float64 does not fit")
        return self.layer(x - x.mean(0) if self.centred else x)


def independent():
    return Model(False), torch.randn(1, 16)


def coupled():
    return Model(True), torch.randn(1, 16)
"""


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("factory", "name"), [("independent", "float64"), ("coupled", "float32")])
def test_a_reference_that_does_not_fit_is_divided_or_less_precise(factory: str, name: str) -> None:
    factories = Factories(MODELS, dtype="float32", batch_sizes=[ROWS], input_sets=1)
    reference = factories.make_reference(factory)
    assert reference.name == name
    assert reference.outputs[0][0].shape == (ROWS, 4)
    assert reference.outputs[0][0].eager.rmse < 1e-6
