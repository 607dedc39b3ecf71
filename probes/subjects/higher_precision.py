"""Run a copy of a module in a higher precision than its own, as the reference of its outputs.

Modules often name precisions in their code: `x.float()`, `x.to(torch.bfloat16)`. Such a cast
undoes the higher precision, or gives a product two types. Where a module cannot be called in a
higher precision as it is, its casts are therefore redirected.

Modules also compute with the limits of a precision: `torch.finfo(x.dtype).min` as a mask, or `.eps`
against division by zero, as `torch.nn.RMSNorm` does by default. These are constants of the module.
They stay those of its own precision.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from probes.subjects import precision

#: What PyTorch and the checks of a user's own code raise for values that a model does not take.
REFUSALS = (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)
LOWER = (torch.float32, torch.float16, torch.bfloat16)


@dataclasses.dataclass(frozen=True)
class Precision:
    """How the reference is computed."""

    #: None for the module as it is.
    dtype: torch.dtype | None
    #: The precision of the module as it is.
    own: torch.dtype
    redirects_casts: bool = False

    def call(self, module: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls a copy of `module` in this precision with tensors."""
        if self.dtype is None:
            return module
        dtype = self.dtype
        precise = precision.cast_module(copy_module(module), dtype)

        def called(*tensors: torch.Tensor) -> Any:
            with self.context():
                return precise(*(precision.cast(tensor, dtype) for tensor in tensors))

        return called

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        """Enter the context in which a module that is cast to the precision is called."""
        with contextlib.ExitStack() as entered:
            if self.dtype is not None:
                entered.enter_context(keep_limits(self.own, self.dtype))
                if self.redirects_casts:
                    entered.enter_context(RedirectedCasts(self.dtype))
            yield


def copy_module(module: Any) -> Any:
    """Return a copy with weights of its own; attributes that cannot be copied stay the same.

    Such are generators, locks and open files.
    """
    memo: dict[int, Any] = {}
    with contextlib.suppress(*REFUSALS):
        return copy.deepcopy(module, memo)
    memo.clear()
    for part in module.modules():
        for name, value in vars(part).items():
            if name not in {"_parameters", "_buffers", "_modules"}:
                try:
                    copy.deepcopy(value)
                except REFUSALS:
                    memo[id(value)] = value
    return copy.deepcopy(module, memo)


def candidates(dtypes: list[torch.dtype], own: torch.dtype) -> list[Precision]:
    """Return the precisions to try, the best first; the last is the module's own."""
    return [
        *(Precision(dtype, own, redirects) for dtype in dtypes for redirects in (False, True)),
        Precision(None, own),
    ]


@contextlib.contextmanager
def keep_limits(own: torch.dtype, higher: torch.dtype) -> Iterator[None]:
    """Let `torch` use the limits of `own` for values in `higher`.

    They are those of `torch.finfo`, and the epsilon of an RMS norm that is called without one.
    """
    finfo, rms_norm = torch.finfo, torch.rms_norm
    raised = {higher, precision.COMPLEX.get(higher)}

    def own_finfo(*dtype: torch.dtype) -> torch.finfo:
        return finfo(*(own if each in raised else each for each in dtype))

    def own_rms_norm(
        values: torch.Tensor,
        normalized_shape: list[int],
        weight: torch.Tensor | None = None,
        eps: float | None = None,
    ) -> torch.Tensor:
        # PyTorch normalises half precisions in float32.
        computed = torch.promote_types(own, torch.float32) if values.dtype in raised else None
        epsilon = finfo(computed).eps if computed and eps is None else eps
        return rms_norm(values, normalized_shape, weight, epsilon)

    vars(torch).update(finfo=own_finfo, rms_norm=own_rms_norm)
    try:
        yield
    finally:
        vars(torch).update(finfo=finfo, rms_norm=rms_norm)


def find(options: list[Precision], takes: Callable[[Precision], None]) -> Precision:
    """Return the first precision for which `takes` raises none of `REFUSALS`, else the last.

    A lack of memory is one of them: a lower precision needs less.
    """
    for option in options[:-1]:
        try:
            takes(option)
        except REFUSALS:
            continue
        return option
    return options[-1]


class RedirectedCasts(TorchDispatchMode):
    """Operators that name a lower precision use `dtype` instead."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = {name: self._replace(value) for name, value in (kwargs or {}).items()}
        return func(*map(self._replace, args), **named)

    def _replace(self, value: Any) -> Any:
        is_lower = isinstance(value, torch.dtype) and value in LOWER
        return self._dtype if is_lower else value
