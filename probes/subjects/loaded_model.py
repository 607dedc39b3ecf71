"""A module and the arguments of its call, which every kind of model is loaded as."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from probes.events import Unit
from probes.files import replace_when_complete


@dataclasses.dataclass(frozen=True)
class Argument:
    """One positional argument of the model: a tensor of integers or of normal values.

    The latter are never zero: zeros draw less power, so the device would clock higher.
    """

    #: Shape of one row, without the batch.
    shape: tuple[int, ...]
    dtype: torch.dtype
    #: The smallest of random integers, such as token ids, and the number above the largest; None
    #: for other values.
    low: int | None = None
    high: int | None = None
    #: The last of them in each row, such as the token that ends a text; None for a random one.
    last: int | None = None
    #: Whether its first dimension is the batch.
    batched: bool = True
    #: Whether every call gets the values of an example.
    fixed: bool = False

    def lay_out(self, values: torch.Tensor) -> torch.Tensor:
        """Return `values` with the order of dimensions in memory that the example has."""
        return values

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return random values for a batch, as a numpy array that `dtype` holds exactly."""
        shape = (batch_size, *self.shape)
        if self.low is not None:
            drawn = generator.integers(self.low, self.high, size=shape, dtype=np.int64)
            if self.last is not None:
                drawn[..., -1] = self.last
            return drawn
        values = torch.from_numpy(generator.standard_normal(shape, dtype=np.float32))
        return values.to(self.dtype).to(torch.float32).numpy()


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model's module, the arguments of its call, and facts for reports."""

    module: torch.nn.Module
    arguments: tuple[Argument, ...]
    #: Whether all workers load the reference worker's weights, because a second load of the model
    #: could give others.
    shares_weights: bool
    #: Names of keyword inputs in the order of the arguments; empty for positional ones, None for
    #: nested ones.
    names: tuple[str, ...] | None = ()
    unit: Unit = "samples"
    units_per_sample: int = 1
    #: What the model changes in the process, or is wrapped in, and what was done about it.
    adjusted: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Whether the module refuses `eval`, as that of an exported program does.
    fixed_mode: bool = False


#: Precisions that `rubric/accuracy.toml` has rules for.
PRECISIONS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
TABLES = (torch.nn.Embedding, torch.nn.EmbeddingBag)
LENGTH_AXIS = 1


def resize(arrays: list[Any], built: int, length: int) -> list[Any]:
    """Repeat or cut the elements of each second dimension of size `built`."""
    return [
        array.take(range(length), axis=LENGTH_AXIS, mode="wrap")
        if array.ndim > LENGTH_AXIS and array.shape[LENGTH_AXIS] == built
        else array
        for array in arrays
    ]


def share(module: torch.nn.Module, file: pathlib.Path) -> None:
    """Load weights and buffers from `file`. The reference worker runs first and saves them."""
    state = module.state_dict()
    # Those that are registered with `persistent=False` may be random.
    buffers = {name: value for name, value in module.named_buffers() if name not in state}
    if not file.exists():
        with replace_when_complete(file) as partial:
            torch.save((dict(state), buffers), partial)
        return
    saved, others = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    is_meta = any(parameter.is_meta for parameter in module.parameters())
    module.load_state_dict(saved, assign=is_meta)
    for name, value in others.items():
        buffers[name].copy_(value)


def floating_dtype(model: LoadedModel) -> torch.dtype:
    """Return the one of `PRECISIONS` that the model computes in, as far as its tensors show it.

    That is the precision of most weights, without tables, which are only looked up. Without such
    weights the first argument counts before the buffers, which may be scales of packed weights.
    """
    layers = (each for each in model.module.modules() if not isinstance(each, TABLES))
    weights = {each for layer in layers for each in layer.parameters(recurse=False)}
    everything = (*model.module.parameters(), *model.module.buffers())
    inputs = (each.dtype for each in model.arguments if each.dtype in PRECISIONS)
    return next(iter((*_by_elements(weights), *inputs, *_by_elements(everything))), torch.float32)


def _by_elements(tensors: Iterable[torch.Tensor]) -> list[torch.dtype]:
    """Return the precisions that most elements have first; of equally many the more precise."""
    elements = collections.Counter[torch.dtype]()
    for tensor in tensors:
        elements[tensor.dtype] += tensor.numel()
    present = [dtype for dtype in PRECISIONS if elements[dtype]]
    return sorted(present, key=elements.__getitem__, reverse=True)
