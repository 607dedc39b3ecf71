"""Move values by one unit in the last place of a precision."""

from __future__ import annotations

import torch


def step(values: torch.Tensor, unit: float, generator: torch.Generator) -> torch.Tensor:
    """Return float64 `values` moved up or down, at random, by one unit in their last place.

    `unit` is the precision's `torch.finfo(...).eps`: the distance of 1.0 to the next value.
    """
    _, exponents = torch.frexp(values)
    signs = torch.empty_like(values).bernoulli_(0.5, generator=generator) * 2 - 1
    return values + signs * torch.ldexp(torch.full_like(values, unit), exponents - 1)
