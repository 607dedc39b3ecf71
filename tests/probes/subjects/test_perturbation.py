"""Values move by one unit in the last place of the precision."""

from __future__ import annotations

import pytest
from lazy import lazy

torch = lazy("torch")
perturbation = lazy("probes.subjects.precision")

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_each_value_moves_to_a_neighbour(name: str) -> None:
    dtype = getattr(torch, name)
    values = torch.tensor([1.0, 1.5, -3.0, 100.0, -0.37, 1e-3]).repeat(64).to(dtype).double()
    moved = perturbation.step(values, torch.finfo(dtype).eps, torch.Generator().manual_seed(0))
    distance = (moved - values).abs()
    # The neighbour above, in the precision: it is as far as the spacing of the values there.
    spacing = 2.0 ** torch.floor(torch.log2(values.abs())) * torch.finfo(dtype).eps
    assert torch.equal(distance, spacing)
    assert 0.3 < float((moved > values).double().mean()) < 0.7


def test_zeros_stay_and_nothing_becomes_infinite() -> None:
    values = torch.tensor([0.0, -0.0, 1e-300, 1e300], dtype=torch.float64)
    moved = perturbation.step(values, 2.0**-7, torch.Generator().manual_seed(0))
    assert moved[:2].tolist() == [0.0, 0.0]
    assert torch.isfinite(moved).all()
    assert (moved[2:] != values[2:]).all()
