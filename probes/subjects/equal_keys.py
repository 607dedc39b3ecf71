"""Find the outputs that depend on how sort, topk and argmax order equal values.

PyTorch leaves that open, so compiled programs order them otherwise and are right. Such an operator
is called with the ranks of the values instead, in which equal values have an order.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from probes.checking.deviation import MAX_ELEMENTS
from probes.checking.stored_reference import Keys
from probes.subjects.modes import EagerMode

#: Operators that return places, as the last result: those of a whole order, of one value of a
#: dimension, and others. A stable sort, which has another overload, does not leave the order open.
ORDERING = {"aten.sort.default", "aten.argsort.default", "aten.topk.default"}
CHOOSING = {
    *("aten.argmax.default", "aten.argmin.default", "aten.max.dim", "aten.min.dim"),
    *("aten.median.dim", "aten.nanmedian.dim", "aten.kthvalue.default"),
}
WITHOUT_ROWS = {
    *("aten.cummax.default", "aten.cummin.default"),
    *("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default"),
    *("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default"),
}
OPEN = ORDERING | CHOOSING | WITHOUT_ROWS
STABLE = {"aten.sort.stable", "aten.argsort.stable"}
#: Orders that are tried: that of the places, the reversed one and random ones. In many of them a
#: pair has the same order by chance.
ORDERS, LEAST_ORDERS = 16, 3
#: Differences of this share of the output are rounding.
SAME = 1e-9


class UsedPlaces:
    """The places that operators have returned, and whether an operator takes some."""

    def __init__(self) -> None:
        self.are_taken = False
        self._places: dict[int, weakref.ref[torch.Tensor]] = {}

    def add(self, places: torch.Tensor) -> None:
        self._places[id(places)] = weakref.ref(places)

    def look_at(self, arguments: Any) -> None:
        for argument in tree_leaves(arguments):
            place = self._places.get(id(argument))
            self.are_taken |= place is not None and place() is argument

    @property
    def may_reach_outputs(self) -> bool:
        """Whether an operator takes some, or some exist still: as outputs, or as a state."""
        return self.are_taken or any(place() is not None for place in self._places.values())


class Observer(EagerMode):
    """Notes the places that operators return, and the least exact precision of a result."""

    def __init__(self) -> None:
        super().__init__()
        self.places = UsedPlaces()
        self.unit = 0.0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.places.look_at((args, kwargs))
        result = func(*args, **(kwargs or {}))
        results = result if isinstance(result, (tuple, list)) else (result,)
        if str(func) in OPEN or str(func) in STABLE:
            self.places.add(results[-1])
        for each in results:
            if isinstance(each, torch.Tensor) and each.is_floating_point():
                self.unit = max(self.unit, torch.finfo(each.dtype).eps)
        return result


class OtherOrder(EagerMode):
    """Lets operators order equal values otherwise, and notes what they ordered."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        #: The places, and the values that they are places of, where there are equal ones.
        self.ties: list[tuple[Any, Keys | None]] = []
        #: Whether an operator has returned other places.
        self.has_moved = False
        #: A pooling's are mostly dropped.
        self.places = UsedPlaces()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        self.places.look_at((args, named))
        result = func(*args, **named)
        is_open = str(func) in OPEN or (str(func) in STABLE and not named.get("stable"))
        if not is_open or not args[0].numel():
            return result
        other = func(self._rank(args[0]), *args[1:], **named)
        *values, places = (result,) if isinstance(result, torch.Tensor) else result
        moved = other if isinstance(other, torch.Tensor) else other[-1]
        if args[0].unique().numel() < args[0].numel():
            self.ties.append((places.cpu().numpy(), _keys_of(func, args, named, places)))
        self.has_moved |= not torch.equal(places, moved)
        self.places.add(moved)
        return (*values, moved) if values else moved

    def _rank(self, values: torch.Tensor) -> torch.Tensor:
        """Return the rank of each value among all, with a smaller number that orders equal ones."""
        ranks = values.unique(return_inverse=True)[1].double()
        count, device = values.numel(), values.device
        order = torch.arange(count, device=device)
        if self._seed > 1:
            generator = torch.Generator(device).manual_seed(self._seed)
            order = torch.randperm(count, generator=generator, device=device)
        step = (-order if self._seed == 0 else order) / (2 * count)
        return ranks + step.view(values.shape)


def _keys_of(func: Any, args: Any, named: dict[str, Any], places: torch.Tensor) -> Keys | None:
    """Return what an operator orders along one dimension; None for operators without one."""
    given = {argument.name: argument.default_value for argument in func._schema.arguments}  # noqa: SLF001 - no public name
    given |= dict(zip(given, args, strict=False)) | named
    if str(func) in WITHOUT_ROWS:
        return None
    values, axis = args[0], given["dim"]
    if axis is None:
        values, axis = values.reshape(-1), 0
    size = values.shape[axis] if values.dim() else 1
    rows = (
        values.double().movedim(axis, -1).reshape(-1, size) if values.dim() else values.view(1, 1)
    )
    is_one = places.numel() == len(rows) and str(func) in CHOOSING
    return Keys(rows.cpu().numpy(), None if is_one else axis % places.dim())


def find_tied(outputs: Sequence[Any], call: Callable[[], Sequence[Any]]) -> list[Any]:
    """Return which elements of `outputs` differ in other orders.

    These are booleans, or the keys of an output that is the places of ordered values. `call`
    computes the outputs, numpy arrays, again.
    """
    masks = [np.zeros(array.shape, dtype=bool) for array in outputs]
    ties: list[tuple[Any, Keys | None]] = []
    has_moved = False
    for seed in range(ORDERS):
        with OtherOrder(seed) as order:
            outputs_in_order = call()
        ties = ties or order.ties
        has_moved |= order.has_moved
        if not ties or not order.places.are_taken or (seed >= LEAST_ORDERS and not has_moved):
            break
        masks = [
            mask | _differs(one, other)
            for mask, one, other in zip(masks, outputs, outputs_in_order, strict=True)
        ]
    return [
        next((keys for places, keys in ties if keys and _are_places(output, places, keys)), mask)
        if output.size <= MAX_ELEMENTS
        else mask
        for output, mask in zip(outputs, masks, strict=True)
    ]


def _are_places(output: Any, places: Any, keys: Keys) -> bool:
    if keys.axis is None and output.size == places.size:
        places = places.reshape(output.shape)
    return output.dtype.kind == "i" and np.array_equal(output, places)


def _differs(one: Any, other: Any) -> Any:
    if one.shape != other.shape:
        return np.ones(one.shape, dtype=bool)
    if one.dtype.kind != "f":
        return one != other
    return ~(abs(one - other) <= SAME * abs(one).max(initial=0.0)) & (one != other)
