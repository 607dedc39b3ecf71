"""Refuse a module whose calls leave something behind that changes the next call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from probes.adapter import ModelError

#: Number of buffers that a reason names.
MAX_NAMED = 3


def refuse_lasting_effects(
    module: torch.nn.Module,
    make_tensors: Sequence[Callable[[], tuple[torch.Tensor, ...]]],
    call: Callable[[tuple[torch.Tensor, ...]], list[Any]],
) -> None:
    """Raise `ModelError` if a later call differs because one changed an input or a buffer.

    The calls of a race use the same tensors and the same module again and again, and exporters
    drop the changes of buffers. `make_tensors` has a function for each input set. Compared calls
    draw the same random numbers. Buffers are as before in the end.
    """
    with restored_buffers(module) as before:
        tensors = make_tensors[0]()
        first = _call_seeded(call, tensors)
        changed = _changed_buffers(module, before)
        changes_inputs = not all(map(torch.equal, tensors, make_tensors[0]()))
        if not changed and not changes_inputs:
            return
        is_same = _are_equal(first, _call_seeded(call, tensors))
        if changes_inputs and not is_same:
            reason = "the model changes its inputs in place, so a second call with them differs"
            raise ModelError(reason, "let forward change a copy, such as x = x.clone()")
        # With the same inputs, a cache may get the same values at the same place again.
        later = [_call_seeded(call, make()) for make in make_tensors[1:]]
    for make, after in zip(make_tensors[1:], later, strict=True):
        with restored_buffers(module):
            is_same = is_same and _are_equal(_call_seeded(call, make()), after)
    if is_same:
        return
    named = ", ".join(changed[:MAX_NAMED]) + (", ..." if len(changed) > MAX_NAMED else "")
    raise ModelError(
        f"each call changes buffers of the model ({named}), so a later call differs",
        "let forward take such a state as an input and return the new one, or change it in training"
        " mode only (if self.training:)",
    )


@contextlib.contextmanager
def restored_buffers(module: torch.nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    """Yield copies of the dense buffers, and write the changed ones back at the end.

    Sparse ones cannot be compared.
    """
    before = {
        name: values.clone()
        for name, values in module.named_buffers()
        if values.layout == torch.strided
    }
    try:
        yield before
    finally:
        buffers = dict(module.named_buffers())
        for name in _changed_buffers(module, before):
            if buffers[name].shape == before[name].shape:
                buffers[name].copy_(before[name])  # Others may share its memory.
            else:
                buffers[name].data = before[name]


def _changed_buffers(module: torch.nn.Module, before: dict[str, torch.Tensor]) -> list[str]:
    return [
        name
        for name, values in module.named_buffers()
        if name in before and not torch.equal(values, before[name])
    ]


def _are_equal(first: list[Any], second: list[Any]) -> bool:
    return len(first) == len(second) and all(map(np.array_equal, first, second))


def _call_seeded(
    call: Callable[[tuple[torch.Tensor, ...]], list[Any]], tensors: tuple[torch.Tensor, ...]
) -> list[Any]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return call(tensors)
