"""Decode what workers report; `probes.events` declares it.

msgspec checks the types, and `check_bounds` the numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import TypeVar

import msgspec

from probes import accuracy, events
from probes.events import Event
from probes.outcome import Outcome
from probes.shape import Bounds

Message = TypeVar("Message", Event, Outcome)

EVENTS_BY_TAG: dict[str, type[Event]] = {
    kind.event: kind
    for module in (events, accuracy)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}
# msgspec resolves a type at its first use, and two threads that do so at once crash.
for _kind in EVENTS_BY_TAG.values():
    msgspec.json.Decoder(_kind)


def decode(message: bytes, kind: type[Message]) -> Message:
    """Decode JSON; raise `msgspec.MsgspecError`, or `ValueError` for a number out of bounds."""
    found = msgspec.json.decode(message, type=kind, dec_hook=decode_event)
    check_bounds(found)
    return found


def decode_event(kind: type, fields: object) -> Event:
    """Decode the fields of an event that is part of another value; a hook of msgspec."""
    if kind is not Event:
        raise NotImplementedError  # how a hook of msgspec says that it does not know the type
    tag = fields.get("event") if isinstance(fields, dict) else None
    if not isinstance(tag, str) or tag not in EVENTS_BY_TAG:
        raise ValueError(f"unknown event {tag!r}")
    return msgspec.convert(fields, EVENTS_BY_TAG[tag], str_keys=True)


def describe_event(kind: type) -> dict[str, object]:
    """Return the JSON Schema of an event that is part of another value; a hook of msgspec."""
    if kind is not Event:
        raise NotImplementedError  # how a hook of msgspec says that it does not know the type
    return {"anyOf": [{"$ref": f"#/$defs/{each.__name__}"} for each in EVENTS_BY_TAG.values()]}


def check_bounds(value: object) -> None:
    """Raise `ValueError` if a number of a dataclass or a struct is outside its bounds."""
    for name, bounds in _bounds_by_field(type(value)):  # type: ignore[arg-type]
        found = getattr(value, name)
        values = tuple(found.values()) if isinstance(found, dict) else found
        for each in values if isinstance(values, tuple) else (values,):
            if isinstance(each, msgspec.Struct) or dataclasses.is_dataclass(each):
                check_bounds(each)
            elif bounds and each is not None and not bounds.low <= each <= bounds.high:
                raise ValueError(f"{name} is not from {bounds.low:g} to {bounds.high:g}")


@functools.cache
def _bounds_by_field(kind: type) -> tuple[tuple[str, Bounds | None], ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple((name, _find_bounds(hint)) for name, hint in hints.items())


def _find_bounds(hint: object) -> Bounds | None:
    """Return the bounds in the type of a field, such as `tuple[Annotated[float, Bounds], ...]`."""
    if isinstance(hint, Bounds):
        return hint
    return next(filter(None, map(_find_bounds, typing.get_args(hint))), None)
