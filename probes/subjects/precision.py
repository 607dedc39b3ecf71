"""Cast modules and tensors to a precision.

`Module.to(dtype)` also casts complex tensors to the real `dtype`, which drops their imaginary part.
"""

from __future__ import annotations

import torch

#: The complex type of a precision. No operator computes with complex bfloat16, and few with complex
#: float16.
COMPLEX = {torch.float64: torch.complex128}
LEAST_COMPLEX = torch.complex64


def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the tensor in `dtype`, or a complex one in its complex type; integers stay."""
    if tensor.is_complex():
        return tensor.to(COMPLEX.get(dtype, LEAST_COMPLEX))
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def cast_module(module: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """Cast the parameters and buffers in place, and return the module."""
    if any(tensor.is_complex() for tensor in (*module.parameters(), *module.buffers())):
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.data = cast(tensor.data, dtype)
        return module
    return module.to(dtype)


def step(values: torch.Tensor, unit: float, generator: torch.Generator) -> torch.Tensor:
    """Return float64 `values` moved up or down, at random, by one unit in their last place.

    `unit` is the precision's `torch.finfo(...).eps`: the distance of 1.0 to the next value. Zeros
    stay zeros: their next value is too small to matter.
    """
    mantissas, _ = torch.frexp(values)
    signs = torch.empty_like(values).bernoulli_(0.5, generator=generator) * 2 - 1
    # A value is its mantissa, from 0.5 to 1, times a power of two, which is the quotient of both.
    powers = torch.where(mantissas == 0, 0.0, values / mantissas)
    return values + signs * unit * powers.abs() / 2


def step_any(values: torch.Tensor, unit: float, generator: torch.Generator) -> torch.Tensor:
    """Return `step` of float64 values, and of both parts of complex ones; integers stay."""
    if values.is_complex():
        return torch.view_as_complex(step(torch.view_as_real(values), unit, generator))
    return step(values, unit, generator) if values.is_floating_point() else values


def unit_of(values: torch.Tensor) -> float:
    """Return the `unit` of the values' precision, or of the parts of complex ones; 0 for others."""
    if not (values.is_floating_point() or values.is_complex()):
        return 0.0
    return float(torch.finfo(values.dtype).eps)
