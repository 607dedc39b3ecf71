"""numpy, and files of values that hold its arrays.

numpy is imported when it is first used, because the stack of a worker may decide how that happens.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any, TypeVar

from probes.files import replace_when_complete

Kind = TypeVar("Kind")


class _Numpy:
    def __getattr__(self, name: str) -> Any:
        import numpy  # noqa: ICN001, PLC0415 - see above

        return getattr(numpy, name)


np: Any = _Numpy()
#: Name of the description of a value in its file.
VALUE = "value"


def save(file: pathlib.Path, value: Any, separate: Mapping[str, Any] | None = None) -> None:
    """Write a value to a numpy archive without pickles, atomically.

    It may consist of arrays, dataclasses, dictionaries, lists, tuples and what JSON has. The
    `separate` arrays, by name, are read one by one; see `read`.
    """
    arrays: dict[str, Any] = dict(separate or {})

    def describe(part: Any) -> Any:
        if isinstance(part, (np.ndarray, np.generic)):
            name = f"{VALUE}-{len(arrays)}"
            arrays[name] = part
            return {"array": name}
        if dataclasses.is_dataclass(part):
            names = [field.name for field in dataclasses.fields(part)]
            return {type(part).__name__: {name: describe(getattr(part, name)) for name in names}}
        if isinstance(part, dict):
            return {"dict": [[key, describe(held)] for key, held in part.items()]}
        if isinstance(part, (list, tuple)):
            return {type(part).__name__: [describe(held) for held in part]}
        return part

    described = json.dumps(describe(value))
    with replace_when_complete(file) as partial:
        np.savez(partial, **arrays, **{VALUE: np.array(described)})


def load(file: pathlib.Path, kind: type[Kind], *classes: type) -> Kind:
    """Read what `save` wrote, of the class `kind`; `classes` are further dataclasses in it."""
    known = {each.__name__: each for each in (kind, *classes)}

    def restore(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, held),) = value.items()
        if kind == "array":
            return archive[held]
        if kind == "dict":
            return {key: restore(part) for key, part in held}
        if isinstance(held, dict):
            return known[kind](**{name: restore(part) for name, part in held.items()})
        parts = [restore(part) for part in held]
        return tuple(parts) if kind == "tuple" else parts

    with np.load(file, allow_pickle=False) as archive:
        restored: Kind = restore(json.loads(str(archive[VALUE])))
        return restored


def as_collected(array: Any) -> Any:
    """Return an array as programs return it: half precisions as float32, both parts of complex."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], -1)
    # bfloat16 of a package is a type without a kind.
    is_half = array.dtype.kind in "fV" and array.itemsize < np.dtype("float32").itemsize
    return array.astype("float32") if is_half else array


def is_same(one: Any, other: Any) -> bool:
    """Compare two arrays; NaN equals NaN. Comparing bits first takes an eighth of the time."""
    if one.dtype == other.dtype and one.dtype.kind in "biuf":
        bits = f"u{one.itemsize}"
        if np.array_equal(one.view(bits), other.view(bits)):
            return True
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def read(file: pathlib.Path, name: str) -> Any:
    with np.load(file, allow_pickle=False) as archive:
        return archive[name]
