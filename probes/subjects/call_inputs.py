"""Call a model with keyword, dictionary and nested inputs through a list of tensors.

All workflows feed a list of tensors. The other values of the example inputs, such as numbers and
None, stay as they are in every call.
"""

from __future__ import annotations

import dataclasses
import math
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from probes.adapter import ModelError
from probes.subjects.loaded_model import Argument
from probes.subjects.outputs import holds_tensors


@dataclasses.dataclass(frozen=True)
class Slot:
    """The place of a tensor in the inputs, by its number."""

    number: int


@dataclasses.dataclass(frozen=True)
class ConstructedValue:
    """A named tuple or a dataclass, by its constructor and what its fields hold."""

    constructor: Callable[..., Any]
    fields: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class UserMapping:
    """A `UserDict`, such as what tokenizers return, by its class and items."""

    constructor: Callable[[dict[Any, Any]], Any]
    items: dict[Any, Any]


class StructuredCall(torch.nn.Module):
    """Puts tensors into the places of the example inputs and calls the module with the result."""

    def __init__(
        self, module: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        super().__init__()
        self.module = module
        self.arguments, self.keywords = arguments, keywords

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.module(*fill(self.arguments, tensors), **fill(self.keywords, tensors))


def flatten(
    module: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Return a module that takes the tensors of the inputs, and these tensors in order.

    A tensor that stands at several places is one of them. The module is `module` itself if the
    inputs are different positional tensors only.
    """
    tensors: list[torch.Tensor] = []
    structure = _take_out(arguments, tensors)
    named_structure = _take_out(keywords, tensors)
    if not keywords and are_different_tensors(arguments):
        return module, tuple(tensors)
    return StructuredCall(module, structure, named_structure), tuple(tensors)


def are_different_tensors(values: Sequence[Any]) -> bool:
    is_once = len(values) == len({id(value) for value in values})
    return is_once and all(isinstance(value, torch.Tensor) for value in values)


def detach(value: Any) -> Any:
    tensors: list[torch.Tensor] = []
    return fill(_take_out(value, tensors), [tensor.detach().cpu() for tensor in tensors])


def _take_out(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Append the new tensors in `value` to `tensors`, and return it with a `Slot` for each."""
    if isinstance(value, torch.Tensor):
        numbers = (number for number, tensor in enumerate(tensors) if tensor is value)
        number = next(numbers, len(tensors))
        tensors[number:] = tensors[number:] or [value]
        return Slot(number)
    if type(value) in (tuple, list):
        return type(value)(_take_out(part, tensors) for part in value)
    if names := _field_names(value):
        fields = {name: _take_out(getattr(value, name), tensors) for name in names}
        return ConstructedValue(type(value), fields)
    if isinstance(value, Mapping):
        parts = {name: _take_out(part, tensors) for name, part in value.items()}
        # Other mappings are dictionaries in the calls.
        return UserMapping(type(value), parts) if isinstance(value, UserDict) else parts
    if holds_tensors(value):
        raise ModelError(
            f"an example input has tensors in a {type(value).__name__}, where they are constants",
            "let forward take its tensors, also in dictionaries, dataclasses or tuples, and make"
            " the other object, such as a cache, of them",
        )
    return value


def _field_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return tuple(getattr(value, "_fields", ()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(field.name for field in dataclasses.fields(value) if field.init)
    return ()


def fill(value: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """Return `value` with the tensor of its number instead of each `Slot`."""
    if isinstance(value, Slot):
        return tensors[value.number]
    if isinstance(value, ConstructedValue):
        fields = fill(value.fields, tensors)
        made = value.constructor(**fields)
        if dataclasses.is_dataclass(made):
            # Its `__post_init__` may change what already was changed in the example.
            for name, part in fields.items():
                object.__setattr__(made, name, part)
        return made
    if isinstance(value, UserMapping):
        return value.constructor(fill(value.items, tensors))
    if isinstance(value, dict):
        return {name: fill(part, tensors) for name, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)([fill(part, tensors) for part in value])
    return value


def name_rows(rows: int, *, is_nested: bool) -> str:
    """Return the next step for a model that takes no other number of rows than its examples."""
    in_lists = (
        "; for a list of images, return a module that takes one tensor and calls the model with"
        " list(images)"
    )
    return (
        "let forward take the batch as the first dimension of each input"
        f"{in_lists if is_nested else ''}; or use --batch-sizes {rows}: each of the {rows} rows"
        " then counts as a sample"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleLike(Argument):
    """Values with the shape of `example` except the batch, and its mean, deviation and range.

    Integers and booleans are drawn from the example's values at the same position of its rows. If
    all rows are equal, integers are drawn from its range, and booleans with its share of `True`. A
    mask of ones, an example of two dimensions or more, gets rows that end early: a mask that leaves
    nothing out is never tested. NaN and infinity stay at the positions of the example's rows. If
    they are `fixed`, the rows are repeated or cut to the batch.
    """

    example: torch.Tensor

    def draw(self, generator: np.random.Generator, batch_size: int) -> Any:
        shape = (batch_size, *self.shape) if self.batched else self.shape
        if self.fixed or not shape or not self.example.numel():
            values = self._host(self.example)
            return np.resize(values, shape) if self.batched else values
        is_discrete = not self.dtype.is_floating_point
        is_rows = self.example.dim() > 1 and shape[-1] > 1
        if is_discrete and is_rows and bool((self.example == 1).all()):
            lengths = generator.integers(-(-shape[-1] // 2), shape[-1] + 1, size=(*shape[:-1], 1))
            return (np.arange(shape[-1]) < lengths).astype(self._host(self.example).dtype)
        if self.dtype.is_complex:
            real, imaginary = generator.standard_normal((2, *shape)) / math.sqrt(2)
            deviation = self.example.std(correction=0).item() or 1.0
            drawn = (real + 1j * imaginary) * deviation + self.example.mean().item()
            return torch.from_numpy(drawn).to(self.dtype).numpy()
        if is_discrete:
            return self._draw_discrete(generator, shape)
        values = self.example.double().cpu().numpy()
        finite = values[np.isfinite(values)]
        mean, deviation = (finite.mean(), finite.std()) if finite.size else (0.0, 0.0)
        drawn = generator.standard_normal(shape) * (deviation or 1.0) + mean
        # Equal values have no range.
        drawn = drawn.clip(finite.min(), finite.max()) if deviation else drawn
        if finite.size < values.size:  # a missing value, or one of a mask
            own = self._take_values(values, generator, shape)
            drawn = np.where(np.isfinite(own), drawn, own) if deviation else own
        return self._host(torch.from_numpy(drawn))

    def lay_out(self, values: torch.Tensor) -> torch.Tensor:
        # For example, images may have their channels last.
        if self.example.is_contiguous():
            return values
        like = torch.empty_like(self.example, device="meta")  # dense, also for a part of a tensor
        # The stride of a dimension of size 1, such as the batch, may be any.
        order = sorted(
            range(like.dim()), key=lambda axis: (like.shape[axis] > 1, -like.stride(axis))
        )
        back = [order.index(axis) for axis in range(like.dim())]
        return values.permute(order).contiguous().permute(back)

    def _take_values(
        self, values: Any, generator: np.random.Generator, shape: tuple[int, ...]
    ) -> Any:
        """Return the example's values at the same position of its rows."""
        if not self.batched:
            return values
        return np.take_along_axis(values, generator.integers(0, len(values), size=shape), axis=0)

    def _draw_discrete(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        values = self._host(self.example)
        if self.batched and (values != values[:1]).any():
            return self._take_values(values, generator, shape)
        if self.dtype == torch.bool:
            return np.asarray(generator.random(shape) < values.mean())
        low, high = int(values.min()), int(values.max())
        # Only this type has integers above those of int64.
        drawn_type = np.uint64 if values.dtype == np.uint64 else np.int64
        drawn = generator.integers(low, high, size=shape, dtype=drawn_type, endpoint=True)
        return np.asarray(drawn).astype(values.dtype)

    def _host(self, values: torch.Tensor) -> Any:
        values = values.detach().cpu().to(self.dtype)
        # numpy has neither bfloat16 nor float8; float32 holds every value of lower precisions.
        is_lower = self.dtype.is_floating_point and self.dtype != torch.float64
        return (values.float() if is_lower else values).numpy()


def alternatives(arguments: Sequence[Argument]) -> Iterator[tuple[Argument, ...]]:
    """Yield the arguments, and then with the examples themselves for integers, and for all."""
    yield tuple(arguments)
    for with_floats in (False, True):
        yield tuple(
            dataclasses.replace(argument, fixed=True)
            if isinstance(argument, ExampleLike)
            and (with_floats or not (argument.dtype.is_floating_point or argument.dtype.is_complex))
            else argument
            for argument in arguments
        )
