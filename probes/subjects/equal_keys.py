"""Find the outputs that depend on how sort, topk and argmax order equal values.

PyTorch leaves that open, so compiled programs order them otherwise and are right. The order of
equal values is changed by calling such an operator with permuted values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: Place of the dimension among the arguments, and its default, by operator. A stable sort, which
#: has another overload, does not leave the order open.
ORDERING = {
    "aten.sort.default": (1, -1),
    "aten.argsort.default": (1, -1),
    "aten.topk.default": (2, -1),
    "aten.argmax.default": (1, None),
    "aten.argmin.default": (1, None),
    "aten.max.dim": (1, None),
    "aten.min.dim": (1, None),
}
STABLE = {"aten.sort.stable", "aten.argsort.stable"}
#: Orders that are tried where values are equal: the reversed one and random ones. In many of them a
#: pair has the same order by chance.
ORDERS = 16
#: Differences of this share of the output are rounding.
SAME = 1e-9


class Observer(TorchDispatchMode):
    """Notes whether an operator orders values, and the least exact precision of a result."""

    def __init__(self) -> None:
        super().__init__()
        self.orders = False
        self.unit = 0.0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.orders |= str(func) in ORDERING or str(func) in STABLE
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(each, torch.Tensor) and each.is_floating_point():
                self.unit = max(self.unit, torch.finfo(each.dtype).eps)
        return result


class OtherOrder(TorchDispatchMode):
    """Lets operators order equal values as in a permutation of them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        #: Whether an operator was called with equal values.
        self.has_ties = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        name = str(func)
        if name in STABLE and not named.get("stable"):
            name = "aten.sort.default"
        if name not in ORDERING:
            return func(*args, **named)
        place, default = ORDERING[name]
        dimension = named.get("dim", args[place] if len(args) > place else default)
        values = args[0]
        if dimension is None:
            if named.get("keepdim"):
                return func(*args, **named)
            values, dimension = values.reshape(-1), 0
        if not values.dim() or not values.numel():
            return func(*args, **named)
        ordered = values.sort(dimension).values
        self.has_ties |= bool((ordered.diff(dim=dimension) == 0).any())
        places = self._permute(values.shape[dimension]).to(values.device)
        result = func(values.index_select(dimension, places), *args[1:], **named)
        if isinstance(result, torch.Tensor):
            return places[result]
        return (*result[:-1], places[result[-1]])

    def _permute(self, size: int) -> torch.Tensor:
        if self._seed == 0:
            return torch.arange(size - 1, -1, -1)
        generator = torch.Generator().manual_seed(self._seed)
        return torch.randperm(size, generator=generator)


def find_tied(outputs: Sequence[Any], call: Callable[[], Sequence[Any]]) -> list[Any]:
    """Return which elements of `outputs` differ in other orders, as booleans by output.

    `call` computes the outputs, numpy arrays, again.
    """
    masks = [np.zeros(array.shape, dtype=bool) for array in outputs]
    for seed in range(ORDERS):
        with OtherOrder(seed) as order:
            found = call()
        if not order.has_ties:
            return masks
        masks = [
            mask | _differs(one, other)
            for mask, one, other in zip(masks, outputs, found, strict=True)
        ]
    return masks


def _differs(one: Any, other: Any) -> Any:
    if one.shape != other.shape:
        return np.ones(one.shape, dtype=bool)
    if one.dtype.kind != "f":
        return one != other
    return ~(abs(one - other) <= SAME * abs(one).max(initial=0.0)) & (one != other)
