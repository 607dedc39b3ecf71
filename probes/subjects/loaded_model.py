"""A module and the arguments of its call, which every kind of model is loaded as."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, load_model, save_model

from probes.files import replace_when_complete
from probes.wire.events import Unit

#: numpy has no bfloat16; float32 holds every value of it exactly.
HOST_DTYPES = {
    torch.bfloat16: np.float32,
    torch.float16: np.float32,
    torch.float32: np.float32,
    torch.float64: np.float64,
}


class Argument:
    """One positional argument of the model: a tensor."""

    #: Without the batch.
    shape: tuple[int, ...]
    dtype: torch.dtype
    #: Whether its first dimension is the batch.
    batched: bool = True
    #: Whether every call gets the values of an example.
    fixed: bool = False
    #: The smallest of random integers, such as token ids, and the number above the largest; None
    #: for other values.
    low: int | None = None
    high: int | None = None

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return random values for a batch as a numpy array, in the dtype of the host."""
        # Each kind of argument defines it.
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class NormalValues(Argument):
    """Normally distributed values.

    They are never zero: zeros draw less power, so the device would clock higher.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return `(batch_size, *shape) float32` values that `dtype` holds exactly."""
        shape = (batch_size, *self.shape)
        values = torch.from_numpy(generator.standard_normal(shape, dtype=np.float32))
        return values.to(self.dtype).to(torch.float32).numpy()


@dataclasses.dataclass(frozen=True)
class RandomIntegers(Argument):
    """Integers in `[low, high)`, uniformly distributed."""

    shape: tuple[int, ...]
    low: int
    high: int
    dtype: torch.dtype = torch.int64

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        shape = (batch_size, *self.shape)
        return generator.integers(self.low, self.high, size=shape, dtype=np.int64)


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


#: Dimension of the length.
LENGTH_AXIS = 1


def resize(arrays: list[Any], built: int, length: int) -> list[Any]:
    """Return the arrays with `length` elements along each second dimension that has `built`.

    `arrays` are numpy arrays of any shape and dtype. Elements are repeated if there are too few.
    """
    return [
        array.take(range(length), axis=LENGTH_AXIS, mode="wrap")
        if array.ndim > LENGTH_AXIS and array.shape[LENGTH_AXIS] == built
        else array
        for array in arrays
    ]


#: Suffix of the file of a model that safetensors cannot hold.
OTHER_SUFFIX = ".pt"
#: Suffix of the file with the buffers that are not in the state of the module.
BUFFERS_SUFFIX = ".buffers.pt"


def share(module: torch.nn.Module, file: pathlib.Path, device: str) -> None:
    """Load the weights from `file`, or save them there if it does not exist.

    The reference worker runs first and saves them. safetensors holds dense tensors only, so a model
    with others, or with views of them, has a file of PyTorch's next to it.
    """
    # Those that are registered with `persistent=False` may be random.
    state = module.state_dict()
    buffers = {name: value for name, value in module.named_buffers() if name not in state}
    others = file.with_suffix(BUFFERS_SUFFIX)
    for name, saved in _exchange(buffers, others).items() if buffers else ():
        buffers[name].copy_(saved)
    if not _is_dense(module):
        if found := _exchange(module.state_dict(), file.with_suffix(OTHER_SUFFIX)):
            module.load_state_dict(found)
    elif not file.exists():
        with replace_when_complete(file) as partial:
            save_model(module, str(partial))
    elif any(parameter.is_meta for parameter in module.parameters()):
        module.load_state_dict(load_file(file, device=device), assign=True)
    else:
        load_model(module, file, device="cpu")


def _is_dense(module: torch.nn.Module) -> bool:
    """Return whether each tensor is a dense one, the only view of all its bytes or equal to it.

    For example, `torch.hann_window` returns a part of a longer tensor.
    """
    return all(
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and not value.is_quantized
        and not value.is_nested
        and (
            value.is_meta
            or (value.is_contiguous() and value.untyped_storage().nbytes() == value.nbytes)
        )
        for value in module.state_dict().values()
    )


def _exchange(tensors: dict[str, Any], file: pathlib.Path) -> dict[str, Any]:
    """Return the tensors that the first worker had, which saves them; none in that worker."""
    if file.exists():
        found: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        return found
    with replace_when_complete(file) as partial:
        torch.save(tensors, partial)
    return {}
