"""Call a model with keyword, dictionary and nested inputs through a list of tensors.

All workflows feed a list of tensors. The other values of the example inputs, such as numbers and
None, stay as they are in every call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Slot:
    """The place of a tensor in the inputs, by its number."""

    number: int


@dataclasses.dataclass(frozen=True)
class Built:
    """A named tuple or a dataclass, by its constructor and what its fields hold."""

    constructor: Callable[..., Any]
    fields: dict[str, Any]


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
    """Return whether the values are tensors, and none is there twice."""
    return all(isinstance(each, torch.Tensor) for each in values) and len(values) == len(
        {id(each) for each in values}
    )


def detach(value: Any) -> Any:
    """Return `value` with its tensors on the host and without gradients."""
    tensors: list[torch.Tensor] = []
    structure = _take_out(value, tensors)
    return fill(structure, [tensor.detach().cpu() for tensor in tensors])


def _take_out(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Append the new tensors in `value` to `tensors`, and return it with a `Slot` for each."""
    if isinstance(value, torch.Tensor):
        numbers = (number for number, tensor in enumerate(tensors) if tensor is value)
        number = next(numbers, len(tensors))
        tensors[number:] = tensors[number:] or [value]
        return Slot(number)
    if isinstance(value, Mapping):
        return {name: _take_out(each, tensors) for name, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_take_out(each, tensors) for each in value)
    if names := _field_names(value):
        fields = {name: _take_out(getattr(value, name), tensors) for name in names}
        return Built(type(value), fields)
    return value


def _field_names(value: Any) -> tuple[str, ...]:
    """Return the fields of a named tuple or of a dataclass object; none for another value."""
    if isinstance(value, tuple):
        return tuple(getattr(value, "_fields", ()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(field.name for field in dataclasses.fields(value) if field.init)
    return ()


def fill(value: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """Return `value` with the tensor of its number instead of each `Slot`."""
    if isinstance(value, Slot):
        return tensors[value.number]
    if isinstance(value, Built):
        return value.constructor(**fill(value.fields, tensors))
    if isinstance(value, dict):
        return {name: fill(each, tensors) for name, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)([fill(each, tensors) for each in value])
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
