"""Run a copy of a module in a higher precision than its own, as the reference of its outputs.

Modules often name precisions in their code: `x.float()`, `x.to(torch.bfloat16)`. Such a cast
undoes the higher precision, or gives a product two types; so do tensors that it creates in the
default precision, as `torch.arange(16) / 16`. Where a module cannot be called in a higher precision
as it is, its casts are therefore redirected; where that is not enough, it is the default, too.

Modules also compute with the limits of a precision: `torch.finfo(x.dtype).min` as a mask, or `.eps`
against division by zero, as `torch.nn.RMSNorm` does by default. These are constants of the module.
They stay those of its own precision.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import signal
import time
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from probes.checking.deviation import error_and_scale
from probes.subjects.modes import EagerMode

#: What PyTorch and the checks of a user's own code raise for values that a model does not take.
REFUSALS = (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)
#: A call in a higher precision, or with drawn inputs, takes at most this long, or this many times a
#: call in the own one, or with the example inputs. The reference takes about ten calls for each
#: batch size. On consumer GPUs float64 is 64 times slower than float32, and grouped convolutions
#: have no fast kernels for it on any.
MOST_SECONDS, MOST_TIMES = 2.0, 8.0
LOWER = (torch.float32, torch.float16, torch.bfloat16)


@dataclasses.dataclass(frozen=True)
class ReferencePrecision:
    """How the reference is computed."""

    #: Precision of the reference; None for the module as it is.
    dtype: torch.dtype | None
    #: The precision of the module as it is.
    own: torch.dtype
    redirects_casts: bool = False
    #: Whether tensors that the module creates have it too, also random ones, which are others then.
    is_default: bool = False

    def call(self, module: Callable[..., Any]) -> Callable[..., Any]:
        if self.dtype is None:
            return module
        dtype = self.dtype
        precise = cast_module(copy_module(module), dtype)

        def called(*tensors: torch.Tensor) -> Any:
            with self.context():
                return precise(*(cast(tensor, dtype) for tensor in tensors))

        return called

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        with contextlib.ExitStack() as entered:
            if self.dtype is not None:
                entered.enter_context(keep_limits(self.own, self.dtype))
                if self.redirects_casts:
                    entered.enter_context(RedirectedCasts(self.dtype))
                if self.is_default:
                    entered.callback(torch.set_default_dtype, torch.get_default_dtype())
                    torch.set_default_dtype(self.dtype)
            yield


def copy_module(module: Any) -> Any:
    """Return a copy with weights of its own; attributes that cannot be copied stay the same.

    Such are generators, locks and open files. Functions that the module holds, such as hooks, read
    and write the copy, too.
    """
    memo: dict[int, Any] = {}
    try:
        copied = copy.deepcopy(module, memo)
    except REFUSALS:
        memo.clear()
        for part in module.modules():
            for name, value in vars(part).items():
                if name not in {"_parameters", "_buffers", "_modules"}:
                    try:
                        copy.deepcopy(value)
                    except REFUSALS:
                        memo[id(value)] = value
        copied = copy.deepcopy(module, memo)
    for part in copied.modules():
        for held in (vars(part), *vars(part).values()):
            if isinstance(held, dict) and memo.get(id(held)) is not held:
                held.update({name: _copy_function(each, memo) for name, each in held.items()})
    return copied


def _copy_function(value: Any, memo: dict[int, Any]) -> Any:
    """Copy a function, which `copy.deepcopy` does not, with the copies of what it closes over."""
    if id(value) in memo or not isinstance(value, types.FunctionType):
        return memo.get(id(value), value)
    cells = value.__closure__ or ()
    closure = tuple(memo.setdefault(id(cell), types.CellType()) for cell in cells)
    copied = types.FunctionType(value.__code__, value.__globals__, value.__name__, None, closure)
    memo[id(value)] = copied
    vars(copied).update(vars(value))
    for cell, original in zip(closure, cells, strict=True):
        with contextlib.suppress(ValueError):  # An empty one.
            cell.cell_contents = _copy_function(original.cell_contents, memo)
    copied.__defaults__ = tuple(_copy_function(each, memo) for each in value.__defaults__ or ())
    named = value.__kwdefaults__ or {}
    copied.__kwdefaults__ = {name: _copy_function(each, memo) for name, each in named.items()}
    return copied


@contextlib.contextmanager
def keep_limits(own: torch.dtype, higher: torch.dtype) -> Iterator[None]:
    """Let `torch.finfo`, and RMS norms without an epsilon, use those of `own` for `higher`."""
    finfo, rms_norm = torch.finfo, torch.rms_norm
    raised = {higher, COMPLEX.get(higher)}

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


class TooSlowError(RuntimeError):
    """A call takes far longer than another one, such as one in a lower precision."""


@contextlib.contextmanager
def time_limit(own_seconds: float) -> Iterator[None]:
    """Raise `TooSlowError` for a call that takes too long: in Python, or when a part begins."""
    seconds = max(MOST_SECONDS, MOST_TIMES * own_seconds)
    end = time.monotonic() + seconds

    def check(*_: object) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        if time.monotonic() > end:
            raise TooSlowError(f"a call takes more than {seconds:.3g} s")

    watched = register_module_forward_pre_hook(check)
    # For a loop without parts that does not end.
    handler = signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
        check()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        watched.remove()


def choose(
    dtypes: list[torch.dtype], own: torch.dtype, attempt: Callable[[ReferencePrecision], None]
) -> ReferencePrecision:
    """Return the first precision for which `attempt` raises none of `REFUSALS`, else the `own`.

    A lack of memory is one of them: a lower precision needs less. One that is too slow is not tried
    with redirected casts.
    """
    for dtype in dtypes:
        for redirects_casts, is_default in ((False, False), (True, False), (True, True)):
            option = ReferencePrecision(dtype, own, redirects_casts, is_default)
            try:
                attempt(option)
            except TooSlowError:
                break
            except REFUSALS:
                continue
            return option
    return ReferencePrecision(None, own)


class RedirectedCasts(EagerMode):
    """Operators that name a lower precision use `dtype` instead."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __torch_dispatch__(
        self, func: Any, classes: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = {name: self._replace(value) for name, value in (kwargs or {}).items()}
        return func(*map(self._replace, args), **named)

    def _replace(self, value: Any) -> Any:
        is_lower = isinstance(value, torch.dtype) and value in LOWER
        return self._dtype if is_lower else value


#: The complex type of a precision. No operator computes with complex bfloat16, and few with complex
#: float16.
COMPLEX = {torch.float64: torch.complex128}
LEAST_COMPLEX = torch.complex64


def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the tensor in `dtype`, or a complex one in its complex type; integers stay."""
    if tensor.is_complex():
        return tensor.to(COMPLEX.get(dtype, LEAST_COMPLEX))
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def has_complex_weights(module: torch.nn.Module) -> bool:
    return any(tensor.is_complex() for tensor in (*module.parameters(), *module.buffers()))


def cast_module(module: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """Cast the parameters and buffers in place, and return the module."""
    if has_complex_weights(module):
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.data = cast(tensor.data, dtype)
        return module
    return module.to(dtype)


#: The bits of the exponent in a float64 that is read as an integer.
EXPONENT_BITS = 0x7FF0000000000000


def step(values: torch.Tensor, unit: float, generator: torch.Generator) -> torch.Tensor:
    """Return float64 `values` moved up or down, at random, by one unit in their last place.

    `unit` is the precision's `torch.finfo(...).eps`: the distance of 1.0 to the next value. Both
    parts of complex values move. Integers stay, and so do zeros: their next value is too small to
    matter.
    """
    if values.is_complex():
        return torch.view_as_complex(step(torch.view_as_real(values), unit, generator))
    if not values.is_floating_point():
        return values
    # Without its sign and its mantissa, a value is the power of two below it.
    powers = (values.view(torch.int64) & EXPONENT_BITS).view(torch.float64)
    signs = torch.empty_like(values, dtype=torch.int8).random_(0, 2, generator=generator)
    return torch.addcmul(values, powers, signs.mul_(2).sub_(1), value=unit)


def unit_of(values: torch.Tensor) -> float:
    """Return the `unit` of the values' precision, or of the parts of complex ones; 0 for others."""
    if not (values.is_floating_point() or values.is_complex()):
        return 0.0
    return float(torch.finfo(values.dtype).eps)


#: Errors of eager PyTorch, relative to the output, that are not looked at: this many units of its
#: precision, or this share if that is less.
UNITS, SHARE = 2000.0, 0.02
#: What perturbations of inputs and weights change may be multiplied by this.
TIMES, PERTURBATIONS = 10.0, 2


def refuse_unfit(
    exact: Sequence[Any],
    eager: Sequence[Any],
    perturbed: Iterable[Sequence[Any] | None],
    random: Collection[int],
    unit: float,
    own_unit: float,
) -> None:
    """Raise `ValueError` if rounding cannot explain how an output of `eager` differs from `exact`.

    All are numpy arrays by output; those of the numbers in `random` do not count. `unit` is that of
    the least exact precision in which eager PyTorch computes, and `own_unit` that of the
    perturbations.
    """
    far = {
        index: error
        for index, error in _errors(eager, exact, random)
        if error > min(UNITS * unit, SHARE)
    }
    if not far:
        return
    reach = [dict(_errors(outputs, exact, random)) for outputs in perturbed if outputs is not None]
    for index, error in far.items():
        largest = max((errors.get(index, 0.0) for errors in reach), default=0.0)
        if error > TIMES * unit / own_unit * largest:
            raise ValueError(f"output {index} of the reference is that of another function")


def _errors(
    outputs: Sequence[Any], exact: Sequence[Any], random: Collection[int]
) -> Iterator[tuple[int, float]]:
    """Yield the number of each output that is not random, and its error.

    It is relative to the root mean square; of integers it is the share that differs. An output of
    another shape has an infinite one.
    """
    for index, (array, target) in enumerate(zip(outputs, exact, strict=True)):
        if index in random:
            continue
        if array.shape != target.shape:
            yield index, math.inf
        else:
            error, scale = error_and_scale(array, target)
            yield index, error / (scale or 1.0)
