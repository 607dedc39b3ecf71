"""Refuse a module whose calls leave something behind that changes the next call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from probes.adapter import ModelError

#: Number of buffers that a reason names.
MAX_NAMED = 3


def refuse_lasting_effects(
    module: torch.nn.Module,
    make_tensors: Callable[[], tuple[torch.Tensor, ...]],
    call: Callable[[tuple[torch.Tensor, ...]], list[Any]],
) -> None:
    """Raise `ModelError` if a second call differs because the first changed an input or a buffer.

    The calls of a race use the same tensors and the same module again and again, and exporters
    drop the changes of buffers. Both calls draw the same random numbers.
    """
    tensors = make_tensors()
    before = _copy_buffers(module)
    first = _call_seeded(call, tensors)
    changed = [
        name
        for name, values in _copy_buffers(module).items()
        if name in before and not torch.equal(values, before[name])
    ]
    changes_inputs = not all(map(torch.equal, tensors, make_tensors()))
    if not changed and not changes_inputs:
        return
    second = _call_seeded(call, tensors)
    if len(first) == len(second) and all(map(np.array_equal, first, second)):
        return
    if changes_inputs:
        reason = "the model changes its inputs in place, so a second call with them differs"
        raise ModelError(reason, "let forward change a copy, such as x = x.clone()")
    named = ", ".join(changed[:MAX_NAMED]) + (", ..." if len(changed) > MAX_NAMED else "")
    raise ModelError(
        f"each call changes buffers of the model ({named}), so a second call differs",
        "let forward take such a state as an input and return the new one, or change it in training"
        " mode only (if self.training:)",
    )


def _copy_buffers(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of the dense buffers; sparse ones cannot be compared."""
    return {
        name: values.clone()
        for name, values in module.named_buffers()
        if values.layout == torch.strided
    }


def _call_seeded(
    call: Callable[[tuple[torch.Tensor, ...]], list[Any]], tensors: tuple[torch.Tensor, ...]
) -> list[Any]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return call(tensors)
