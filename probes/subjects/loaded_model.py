"""A module and the arguments of its call, which every kind of model is loaded as."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Protocol

import numpy as np
import torch

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

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return random values for a batch as a numpy array."""


@dataclasses.dataclass(frozen=True)
class NormalValues:
    """Normally distributed values of `shape` for each sample.

    They are never zero: zeros draw less power, so the device would clock higher.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype

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

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return `(batch_size, *shape) int64` values, uniformly distributed."""
        return generator.integers(
            self.low, self.high, size=(batch_size, *self.shape), dtype=np.int64
        )


@dataclasses.dataclass(frozen=True)
class ExampleLike:
    """Values with the shape of `example` except the batch, and its mean and standard deviation.

    Integers have the example's range instead, and booleans its share of `True`. A mask of ones, an
    example of two dimensions or more, gets rows that end early: a mask that leaves nothing out is
    never tested.
    """

    example: torch.Tensor
    #: Whether the first dimension is the batch; otherwise the shape is fixed.
    batched: bool
    dtype: torch.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape without the batch."""
        return tuple(self.example.shape[1:] if self.batched else self.example.shape)

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return values for a batch, in the dtype of the host."""
        shape = (batch_size, *self.shape) if self.batched else self.shape
        if self._is_mask_of_ones():
            lengths = generator.integers(-(-shape[-1] // 2), shape[-1] + 1, size=(*shape[:-1], 1))
            return (np.arange(shape[-1]) < lengths).astype(
                torch.empty(0, dtype=self.dtype).numpy().dtype
            )
        if self.dtype.is_complex:
            real, imaginary = generator.standard_normal((2, *shape)) / math.sqrt(2)
            deviation = self.example.std(correction=0).item() or 1.0
            drawn = (real + 1j * imaginary) * deviation + self.example.mean().item()
            return torch.from_numpy(drawn).to(self.dtype).numpy()
        if self.dtype == torch.bool:
            return generator.random(shape) < self.example.float().mean().item()
        if not self.dtype.is_floating_point:
            low, high = int(self.example.min()), int(self.example.max())
            return generator.integers(low, high + 1, size=shape).astype(
                torch.empty(0, dtype=self.dtype).numpy().dtype
            )
        mean, deviation = (
            self.example.double().mean().item(),
            self.example.double().std(correction=0).item(),
        )
        values = torch.from_numpy(generator.standard_normal(shape) * (deviation or 1.0) + mean)
        return (
            values.to(self.dtype).numpy() if self.dtype not in HOST_DTYPES else self._host(values)
        )

    def _is_mask_of_ones(self) -> bool:
        """Return whether the example is booleans or integers in rows, all of them 1."""
        return (
            not self.dtype.is_floating_point
            and self.example.dim() > 1
            and self.example.shape[-1] > 1
            and bool((self.example == 1).all())
        )

    def _host(self, values: torch.Tensor) -> Any:
        return values.to(self.dtype).to(torch.float64).numpy().astype(HOST_DTYPES[self.dtype])


@dataclasses.dataclass(frozen=True)
class InputFacts:
    """One tensor that the model takes."""

    #: Name of the keyword; empty for a positional input.
    name: str
    #: Its shape without the batch.
    shape: list[int]
    dtype: str
    #: Whether its first dimension is the batch.
    batched: bool = True
    #: Range `[low, high)` of random integers, such as token ids; None for other values.
    low: int | None = None
    high: int | None = None


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
    unit: str = "samples"
    units_per_sample: int = 1
