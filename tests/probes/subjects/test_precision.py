"""Complex weights keep their imaginary part in every precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lazy import lazy

torch = lazy("torch")
example_like = lazy("probes.subjects.example_like")
outputs = lazy("probes.subjects.outputs")
precision = lazy("probes.subjects.precision")

pytestmark = pytest.mark.stack


def with_complex_weight() -> Any:
    module = torch.nn.Module()
    weight = torch.randn(33, dtype=torch.cfloat, generator=torch.Generator().manual_seed(0))
    module.weight = torch.nn.Parameter(weight, requires_grad=False)
    return module


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float64", "complex128"),
        ("float32", "complex64"),
        ("bfloat16", "complex64"),
    ],
)
def test_a_module_keeps_complex_weights(dtype: str, expected: str) -> None:
    module = precision.cast_module(with_complex_weight(), getattr(torch, dtype))
    assert module.weight.dtype is getattr(torch, expected)
    assert torch.allclose(module.weight.to(torch.cfloat), with_complex_weight().weight)


def test_tensors_of_integers_stay_as_they_are() -> None:
    assert precision.cast(torch.arange(3), torch.float64).dtype is torch.int64
    assert precision.cast(torch.ones(3), torch.float64).dtype is torch.float64


def test_complex_inputs_are_drawn_with_the_spread_of_the_example() -> None:
    example = torch.randn(64, 9, dtype=torch.cfloat) * 3 + (1 - 2j)
    drawn = example_like.ExampleLike(example, batched=True, dtype=torch.cfloat).draw(
        np.random.default_rng(0), 500
    )
    assert drawn.shape == (500, 9)
    assert drawn.dtype == np.complex64
    assert abs(drawn.mean() - example.mean().item()) < 0.3
    assert abs(drawn.std() / example.std().item() - 1) < 0.1


def test_both_parts_of_complex_outputs_are_compared() -> None:
    (parts,) = outputs.collect(torch.tensor([[1 + 2j, 3 - 4j]]).conj())
    assert parts.tolist() == [[[1.0, -2.0], [3.0, 4.0]]]
