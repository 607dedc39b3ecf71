"""Find code that reads the values of a model's inputs while the model is traced.

A trace holds the branch and the numbers that the example led to. Sizes count where they follow
from values, as that of `x[x > 0]` does: exporters handle the others as sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

#: Functions whose result depends on the sizes of a tensor only.
OF_SIZES = {
    torch.Tensor.shape.__get__,
    torch.Tensor.ndim.__get__,
    torch.Tensor.size,
    torch.Tensor.dim,
    torch.Tensor.numel,
    torch.Tensor.__len__,
}
#: Names of the functions whose result has a size that follows from values; with one argument,
#: `where`, and with a mask, an index too.
SIZED_BY_VALUES = {
    "argwhere",
    "bincount",
    "masked_select",
    "nonzero",
    "repeat_interleave",
    "unique",
    "unique_consecutive",
}
MASKS = {torch.bool, torch.uint8}
#: Names of the functions that give Python the values of a tensor.
READS = {
    "__array__",
    "__bool__",
    "__complex__",
    "__contains__",
    "__float__",
    "__index__",
    "__int__",
    "allclose",
    "equal",
    "is_nonzero",
    "item",
    "numpy",
    "tolist",
}


class ValueReads(TorchFunctionMode):
    """Follows the tensors that are computed from a model's inputs, and notes what reads them."""

    def __init__(self) -> None:
        super().__init__()
        #: For each tensor, whether its size follows from values too.
        self._dependent = WeakTensorKeyDictionary()
        self.found: set[str] = set()

    def follow(self, values: Any, *, is_sized_by_values: bool = False) -> None:
        for value in _tensors(values):
            self._dependent[value] = is_sized_by_values

    def __torch_function__(
        self,
        function: Callable[..., Any],
        _types: Any,
        arguments: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
    ) -> Any:
        options = options or {}
        result = function(*arguments, **options)
        given = _tensors((arguments, options))
        known = [self._dependent[each] for each in given if each in self._dependent]
        is_sized = any(known) or (bool(known) and _is_sized_by_values(function, arguments, given))
        if known and (function not in OF_SIZES or is_sized):
            if function.__name__ in READS:
                self.found.add(function.__name__)
            # Without a result the first tensor is written in place.
            self.follow(given[:1] if result is None else result, is_sized_by_values=is_sized)
        return result


def _tensors(values: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(values, is_leaf=lambda each: isinstance(each, torch.Size))
    flat = [each for leaf in leaves for each in (leaf if isinstance(leaf, torch.Size) else [leaf])]
    return [each for each in flat if isinstance(each, torch.Tensor)]


def _is_sized_by_values(
    function: Callable[..., Any], arguments: tuple[Any, ...], given: list[torch.Tensor]
) -> bool:
    name = function.__name__
    return (
        name in SIZED_BY_VALUES
        or (name == "where" and len(arguments) == 1)
        or (name == "__getitem__" and any(each.dtype in MASKS for each in given[1:]))
    )


@contextlib.contextmanager
def watch(module: torch.nn.Module) -> Iterator[set[str]]:
    """Yield a set that receives the names of the functions that read values, as calls trace.

    A scripted module is not traced: its code holds both branches.
    """
    if isinstance(module, torch.jit.ScriptModule):
        yield set()
        return
    reads = ValueReads()
    # A trace calls the module with tensors of its own.
    hook = module.register_forward_pre_hook(
        lambda _, arguments, options: reads.follow((arguments, options)), with_kwargs=True
    )
    try:
        with reads:
            yield reads.found
    finally:
        hook.remove()
