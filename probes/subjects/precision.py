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
