"""What every way of naming a model comes down to: a module and the arguments it is called with."""

from __future__ import annotations

import dataclasses
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

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return seeded values for a batch."""


@dataclasses.dataclass(frozen=True)
class Normal:
    """Normally distributed values of `shape` for each sample: never zeros, which draw less power and so clock higher."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return values that the argument's own precision holds exactly, so that every worker sees the same."""
        values = torch.from_numpy(
            generator.standard_normal((batch_size, *self.shape), dtype=np.float32)
        )
        return values.to(self.dtype).to(torch.float32).numpy()


@dataclasses.dataclass(frozen=True)
class Integers:
    """Whole numbers from `low` up to but without `high`, of `shape` for each sample."""

    shape: tuple[int, ...]
    low: int
    high: int
    dtype: torch.dtype = torch.int64

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return uniformly drawn numbers."""
        return generator.integers(
            self.low, self.high, size=(batch_size, *self.shape), dtype=np.int64
        )


@dataclasses.dataclass(frozen=True)
class Like:
    """Values that look like `example`: same shape but for the batch, same mean and spread, or same range for whole numbers."""

    example: torch.Tensor
    #: Whether the first dimension is the batch.
    batched: bool
    dtype: torch.dtype

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        """Return values for a batch; an unbatched example keeps its shape."""
        shape = (batch_size, *self.example.shape[1:]) if self.batched else tuple(self.example.shape)
        if self.dtype == torch.bool:
            return generator.random(shape) < self.example.float().mean().item()
        if not self.dtype.is_floating_point:
            low, high = int(self.example.min()), int(self.example.max())
            return generator.integers(low, high + 1, size=shape).astype(
                torch.empty(0, dtype=self.dtype).numpy().dtype
            )
        mean, spread = (
            self.example.double().mean().item(),
            self.example.double().std(correction=0).item(),
        )
        values = torch.from_numpy(generator.standard_normal(shape) * (spread or 1.0) + mean)
        return (
            values.to(self.dtype).numpy() if self.dtype not in HOST_DTYPES else self._host(values)
        )

    def _host(self, values: torch.Tensor) -> Any:
        return values.to(self.dtype).to(torch.float64).numpy().astype(HOST_DTYPES[self.dtype])


@dataclasses.dataclass(frozen=True)
class Created:
    """A model as its opener made it."""

    module: torch.nn.Module
    arguments: tuple[Argument, ...]
    #: In words, for reports: `seeded random`, `from the directory`, ...
    weights: str
    #: Whether all workers must take the reference worker's weights, because making the model again
    #: could give others.
    shares_weights: bool
    unit: str = "samples"
    units_per_sample: int = 1
