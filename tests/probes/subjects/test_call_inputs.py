"""Models with keyword, dictionary, nested and other inputs are fed as a list of tensors."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="the stack is not installed: pip install 'p3-advisor[stack]'"
)

from probes.adapter import ModelError  # noqa: E402 - the next lines need torch
from probes.subjects import factory  # noqa: E402
from probes.subjects.call_inputs import flatten  # noqa: E402
from probes.subjects.example_like import ExampleLike  # noqa: E402

pytestmark = pytest.mark.stack


class Recorder(torch.nn.Module):  # type: ignore[name-defined]
    """Returns its inputs."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return arguments, keywords


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


ONE, TWO = torch.ones(2, 3), torch.zeros(2, 4)


def test_positional_tensors_need_no_wrapper() -> None:
    module = Recorder()
    found, tensors = flatten(module, (ONE, TWO), {})
    assert found is module
    assert [tensor.shape for tensor in tensors] == [ONE.shape, TWO.shape]


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((), {"ids": ONE, "mask": TWO}),
        ((ONE,), {"mask": TWO}),
        (({"image": ONE, "text": TWO},), {}),
        (([ONE, (TWO, None)], 3), {"flag": True, "more": {"deep": [ONE]}}),
    ],
    ids=["keywords", "both", "dictionary", "nested with constants"],
)
def test_every_tensor_returns_to_its_place(
    arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    module, tensors = flatten(Recorder(), arguments, keywords)
    doubled = tuple(tensor * 2 + 1 for tensor in tensors)
    found = module(*doubled)

    def expect(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return (value * 2 + 1).tolist()
        if isinstance(value, dict):
            return {name: expect(each) for name, each in value.items()}
        if isinstance(value, (tuple, list)):
            return type(value)(expect(each) for each in value)
        return value

    def listed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.tolist()
        if isinstance(value, dict):
            return {name: listed(each) for name, each in value.items()}
        if isinstance(value, (tuple, list)):
            return type(value)(listed(each) for each in value)
        return value

    assert listed(found) == (expect(arguments), expect(keywords))


def test_named_tuples_and_dataclasses_are_made_of_tensors() -> None:
    module, tensors = flatten(Recorder(), (Pair(ONE, [TWO]), Batch(ONE, 0.5)), {})
    (pair, batch), _ = module(*(tensor + 1 for tensor in tensors))
    assert type(pair) is Pair
    assert torch.equal(pair.second[0], TWO + 1)
    assert (batch.count, batch.scale) == (2, 0.5)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ((Recorder(), collections.UserDict(ids=ONE)), ((), {"ids": ONE})),
        ((Recorder(), ONE), ((ONE,), {})),
        ((Recorder(), {"ids": ONE}), ((), {"ids": ONE})),
        ((Recorder(), (ONE,), {"mask": TWO}), ((ONE,), {"mask": TWO})),
    ],
)
def test_a_factory_may_return_keyword_inputs(returned: Any, expected: Any) -> None:
    assert factory.check_returned(returned, "file.py:make")[1:] == expected


@pytest.mark.parametrize(
    "returned", [(Recorder(), 3), (Recorder(), (ONE,), {3: ONE}), (Recorder(),), (ONE, ONE), None]
)
def test_anything_else_is_refused(returned: Any) -> None:
    with pytest.raises(ModelError):
        factory.check_returned(returned, "file.py:make")


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_a_mask_of_ones_gets_rows_that_end_early(dtype: Any) -> None:
    example = ExampleLike(torch.ones(2, 16, dtype=dtype), batched=True, dtype=dtype)
    drawn = example.draw(np.random.default_rng(0), 64)
    lengths = drawn.astype(int).sum(-1)
    assert drawn.shape == (64, 16)
    assert 8 <= lengths.min() < lengths.max() <= 16
    # The ones come first in each row.
    assert (drawn[:, 0] == 1).all()
    assert (np.diff(drawn.astype(int), axis=-1) <= 0).all()


@pytest.mark.parametrize(
    "example",
    [torch.zeros(2, 16, dtype=torch.int64), torch.ones(4, dtype=torch.int64)],
    ids=["zeros", "one dimension"],
)
def test_other_constant_integers_stay_as_they_are(example: Any) -> None:
    drawn = ExampleLike(example, batched=True, dtype=example.dtype).draw(
        np.random.default_rng(0), 8
    )
    assert (drawn == example.reshape(-1)[0].item()).all()


def draw_like(example: Any, **fields: Any) -> Any:
    made = ExampleLike(example, batched=True, dtype=example.dtype, **fields)
    return made.draw(np.random.default_rng(0), 64)


def test_integers_are_drawn_from_the_values_at_their_position() -> None:
    drawn = draw_like(torch.tensor([[0, 40, 7], [3, 60, 7]]))
    assert [set(column.tolist()) for column in drawn.T] == [{0, 3}, {40, 60}, {7}]


def test_booleans_are_drawn_from_the_values_at_their_position() -> None:
    drawn = draw_like(torch.tensor([[False, False, True], [False, True, True]]))
    assert [set(column.tolist()) for column in drawn.T] == [{False}, {False, True}, {True}]


def test_integers_of_equal_rows_are_drawn_from_the_range() -> None:
    drawn = draw_like(torch.tensor([[2, 9, 5], [2, 9, 5]]))
    assert set(drawn.ravel().tolist()) == set(range(2, 10))


def test_floating_point_numbers_stay_in_the_range_of_the_example() -> None:
    drawn = draw_like(torch.linspace(0.25, 1, 8).reshape(2, 4))
    assert 0.25 <= drawn.min() < drawn.max() <= 1
    # An example without a range has none to stay in.
    assert len(np.unique(draw_like(torch.zeros(2, 4)))) > 1


def test_fixed_values_are_the_rows_of_the_example() -> None:
    example = torch.randn(3, 4, dtype=torch.bfloat16)
    drawn = draw_like(example, fixed=True)
    assert (drawn[:3] == example.float().numpy()).all()
    assert (drawn[3:6] == drawn[:3]).all()
