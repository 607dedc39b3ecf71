"""A module and the arguments of its call, which every kind of model is loaded as."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol

import numpy as np
import torch

from probes.wire.events import Unit

#: numpy has no bfloat16; float32 holds every value of it exactly.
HOST_DTYPES = {
    torch.bfloat16: np.float32,
    torch.float16: np.float32,
    torch.float32: np.float32,
    torch.float64: np.float64,
}


class Argument(Protocol):
    """One positional argument of the model."""

    @property
    def dtype(self) -> torch.dtype:
        """The type of its tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its tensor without the batch."""

    @property
    def batched(self) -> bool:
        """Whether the first dimension of its tensor is the batch."""

    @property
    def fixed(self) -> bool:
        """Whether every call gets the values of an example."""

    @property
    def low(self) -> int | None:
        """The smallest of random integers, such as token ids; None for other values."""

    @property
    def high(self) -> int | None:
        """The number above the largest of random integers; None for other values."""

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return random values for a batch as a numpy array."""


@dataclasses.dataclass(frozen=True)
class NormalValues:
    """Normally distributed values of `shape` for each sample.

    They are never zero: zeros draw less power, so the device would clock higher.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    batched: ClassVar[bool] = True
    fixed: ClassVar[bool] = False
    low: ClassVar[None] = None
    high: ClassVar[None] = None

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return `(batch_size, *shape) float32` values that `dtype` holds exactly."""
        values = torch.from_numpy(
            generator.standard_normal((batch_size, *self.shape), dtype=np.float32)
        )
        return values.to(self.dtype).to(torch.float32).numpy()


@dataclasses.dataclass(frozen=True)
class RandomIntegers:
    """Integers in `[low, high)`, of `shape` for each sample."""

    shape: tuple[int, ...]
    low: int
    high: int
    dtype: torch.dtype = torch.int64
    batched: ClassVar[bool] = True
    fixed: ClassVar[bool] = False

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return `(batch_size, *shape) int64` values, uniformly distributed."""
        return generator.integers(
            self.low, self.high, size=(batch_size, *self.shape), dtype=np.int64
        )


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model's module, the arguments of its call, and facts for reports."""

    module: torch.nn.Module
    arguments: tuple[Argument, ...]
    #: Where the weights come from, for reports: `seeded random`, `from the file`, ...
    weights: str
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
