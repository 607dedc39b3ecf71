"""What a module keeps from call to call: tensors, attributes, containers, variables of its code.

Generators of random numbers are no state: their draws are random numbers.
"""

from __future__ import annotations

import array
import collections
import contextlib
import contextvars
import copy
import functools
import hashlib
import itertools
import os
import random
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from probes.subjects.outputs import attributes

#: Objects that are read; the rest of a larger graph is left out.
MOST_OBJECTS = 20_000
#: Columns of the sums by which a large tensor is compared.
COLUMNS = 1024
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
LEAVES = (bool, int, float, complex, str, bytes, type(None))
#: The type of what `functools.lru_cache` returns.
CACHED = type(functools.cache(len))
#: Number of next values of an iterator that tell its place.
NEXT_VALUES = 8
#: Containers that can be emptied and filled again.
PLAIN = {dict, collections.OrderedDict, list, set, collections.deque}
#: Returns the state of a generator, and sets it.
Generator = tuple[Callable[[], Any], Callable[[Any], Any]]


class State:
    """Values by their names, such as `layer.count`, and the generators that the module reaches."""

    def __init__(self, module: torch.nn.Module, *, reads_tensors: bool = True) -> None:
        self._reads_tensors = reads_tensors
        self.values: dict[str, Any] = {}
        self.generators: list[Generator] = []
        #: Functions of the user's that remember what they returned.
        self.caches: list[Any] = []
        #: Whether a function is compiled by `torch.compile`.
        self.is_compiled = False
        #: Keeps the objects alive, so that an id stands for one of them.
        seen: dict[int, Any] = {}
        pending: list[tuple[str, Any]] = [("", module), ("os.environ", dict(os.environ))]
        while pending and len(seen) < MOST_OBJECTS:
            name, value = pending.pop()
            if isinstance(value, LEAVES):
                self.values[name] = value
            elif id(value) not in seen:
                seen[id(value)] = value
                pending += self._read(name, value)

    def _read(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        """Keep what can be compared of `value`, and return the names and values of its parts."""
        if isinstance(value, (torch.Tensor, np.ndarray)):
            self.values[name] = digest(torch.as_tensor(value)) if self._reads_tensors else None
        elif generator := _generator(value):
            self.generators.append(generator)
        elif isinstance(value, (set, frozenset, bytearray, array.array)):
            self.values[name] = repr(value)
        elif isinstance(value, (dict, list, tuple, collections.deque)):
            self.values[f"{name}[]"] = len(value)
            parts = list(value.items()) if isinstance(value, dict) else enumerate(value)
            return [(f"{name}[{key!r}]", each) for key, each in parts]
        elif isinstance(value, CACHED):
            if not _is_installed(value.__wrapped__.__code__.co_filename):
                self.caches.append(value)
                self.values[name] = value.cache_info().currsize
            return [(name, value.__wrapped__)]
        elif isinstance(value, types.FunctionType):
            function = original_function(value)
            self.is_compiled |= function is not value
            is_own = isinstance(function, types.FunctionType)
            return _variables(function) if is_own else [(name, function)]
        else:
            return _parts_of(name, value)
        return ()

    def changed(self, other: State) -> list[str]:
        """Return the names of what differs, in order and without the places in containers."""
        names = (*self.values, *(name for name in other.values if name not in self.values))
        changed = (
            name.partition("[")[0].removeprefix("module.")  # that of a `StructuredCall`
            for name in names
            if not _is_same(self.values, other.values, name)
        )
        return list(dict.fromkeys(changed))


def digest(tensor: torch.Tensor) -> Any:
    """Return what changes with the values of a tensor; its shape where they cannot be read."""
    shape = tuple(tensor.shape) if not tensor.is_nested else ()
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_nested:
        return shape
    values = tensor.detach()
    if values.is_quantized:
        values = values.int_repr()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    bits = values.contiguous().view(INTEGERS[values.element_size()]).reshape(-1)
    whole = bits.numel() // COLUMNS * COLUMNS if bits.numel() > COLUMNS**2 else 0
    table = bits[:whole].view(-1, COLUMNS)
    parts = (table.sum(0), table.sum(1), bits[whole:]) if whole else (bits,)
    hashed = hashlib.blake2b()
    for part in parts:
        hashed.update(part.cpu().numpy().tobytes())
    return shape, hashed.digest()


def _is_same(ones: dict[str, Any], others: dict[str, Any], name: str) -> bool:
    one, other = ones.get(name, others), others.get(name, ones)
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


def _parts_of(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    match value:
        case types.GeneratorType():
            frame = value.gi_frame
            variables = {**frame.f_locals, "next": frame.f_lasti} if frame else {}
            return [(f"{name}[{key}]", each) for key, each in variables.items()]
        case types.MethodType():
            return [(name, value.__self__), (name, value.__func__)]
        case functools.partial():
            return [(name, value.func), (name, value.args), (name, value.keywords)]
        case contextvars.ContextVar():
            return [(name, value.get(None))]
        case staticmethod() | classmethod():
            return [(name, value.__func__)]
        case property():
            return [(name, value.fget)]
        case types.ModuleType():
            is_own = not _is_installed(getattr(value, "__file__", None))
            return _fields(value.__name__, value) if is_own else ()
        case type():
            return _fields(value.__name__, value) if _is_own_class(value) else ()
        case Iterator() if type(value).__module__ in {"builtins", "itertools"}:
            return [(f"{name}[{index}]", each) for index, each in enumerate(_look_ahead(value))]
        case _:
            own = [(each.__name__, each) for each in type(value).__mro__]
            return [*_fields(name, value), *own]


def original_function(function: Any) -> Any:
    """Return what `torch.compile` has wrapped, or the function itself."""
    # `torch.compiler.disable` wraps functions, too.
    is_compiled = not getattr(function, "_torchdynamo_disable", False)
    return (is_compiled and getattr(function, "_torchdynamo_orig_callable", None)) or function


def _look_ahead(iterator: Iterator[Any]) -> list[Any]:
    # Some can be copied by no means.
    with contextlib.suppress(TypeError, AttributeError):
        return list(itertools.islice(copy.deepcopy(iterator), NEXT_VALUES))
    return []


def _generator(value: Any) -> Generator | None:
    match value:
        case torch.Generator():
            return lambda: value.get_state().clone(), value.set_state
        case np.random.Generator():
            bits = value.bit_generator
            return lambda: bits.state, lambda state: setattr(bits, "state", state)
        case np.random.RandomState():
            return value.get_state, value.set_state
        case random.Random() if not isinstance(value, random.SystemRandom):
            return value.getstate, value.setstate
        case _:
            return None


def _fields(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return the attributes of an object; those of a module of PyTorch without its dictionaries."""
    fields = []
    for key, held in attributes(value):
        if isinstance(value, torch.nn.Module) and key in {"_parameters", "_buffers", "_modules"}:
            fields += [(f"{name}.{own}".lstrip("."), part) for own, part in held.items()]
        elif not key.startswith("__") or isinstance(held, types.FunctionType):
            fields.append((f"{name}.{key}".lstrip("."), held))
    return fields


def _variables(function: types.FunctionType) -> list[tuple[str, Any]]:
    """Return the variables outside of a function of the user's that its code names."""
    if _is_installed(function.__code__.co_filename):
        return []
    codes, names = [function.__code__], set()
    for code in codes:
        names |= {*code.co_names}
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    closed = []
    for name, cell in cells:
        with contextlib.suppress(ValueError):  # An empty one.
            closed.append((name, cell.cell_contents))
    own = vars(function).items()
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    named = [(name, function.__globals__[name]) for name in names & {*function.__globals__}]
    return [*named, *closed, *own, *((function.__name__, each) for each in defaults)]


def _is_installed(file: str | None) -> bool:
    return not file or file.startswith(("<frozen", *_installed_folders())) or "-packages/" in file


def _is_own_class(kind: type) -> bool:
    functions = (original_function(getattr(each, "__func__", each)) for each in vars(kind).values())
    return any(
        isinstance(each, types.FunctionType) and not _is_installed(each.__code__.co_filename)
        for each in functions
    )


@contextlib.contextmanager
def restored(module: torch.nn.Module) -> Iterator[None]:
    """Restore attributes and buffers, but not parameters and what other objects hold."""
    dictionaries, containers = [], []
    for part in module.modules():
        dictionaries.append((part.__dict__, {**part.__dict__}))
        plain = [each for each in part.__dict__.values() if type(each) in PLAIN]
        containers += [(each, copy.copy(each)) for each in plain]
    held = (each for _, before in dictionaries for each in before.values())
    tensors = [
        (each, each.clone())
        for each in (*module.buffers(), *held)
        if isinstance(each, torch.Tensor) and each.layout is torch.strided and not each.is_nested
    ]
    try:
        yield
    finally:
        for each, contents in containers:
            each.clear()
            (each.extend if hasattr(each, "extend") else each.update)(contents)
        for now, before in dictionaries:
            now.clear()
            now.update(before)
        for each, values in tensors:
            if each.shape != values.shape:
                each.data = values
            elif not torch.equal(each, values):
                each.copy_(values)  # Others may share its memory.


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    return tuple(
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    )
