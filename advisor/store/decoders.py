"""Decoders of stored values, built when they are imported.

If two threads decode a type for the first time at once, msgspec (0.22) crashes the process while it
resolves the fields. The terminal program reads runs in several threads.
"""

from __future__ import annotations

import contextlib
import threading

import msgspec

from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import Header
from advisor.domain.wire import decode_event
from advisor.errors import NewerVersionError

HEADERS = msgspec.json.Decoder(Header)
#: Longest number of a version.
MOST_DIGITS = 9
EVENTS = msgspec.json.Decoder(LoggedEvent, dec_hook=decode_event)
#: Held while a value of another type is decoded.
DECODING = threading.Lock()
#: Errors of content that is damaged; a string that is not UTF-8 raises Python's error.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Versioned(msgspec.Struct):
    """A stored value of any version."""

    schema: str


_VERSIONED = msgspec.json.Decoder(_Versioned)


def refuse_newer(content: bytes, schema: str, name: str) -> None:
    """Raise `NewerVersionError` if `name` has a newer version of this schema in its content."""
    kind, _, version = schema.rpartition("/")
    found = ""
    with contextlib.suppress(*DECODE_ERRORS):
        found = _VERSIONED.decode(content).schema
    found_kind, _, found_version = found.rpartition("/")
    if found_kind != kind or not found_version.isdecimal() or not found_version.isascii():
        return
    if len(found_version) > MOST_DIGITS or int(found_version) > int(version):
        raise NewerVersionError(
            f"{name} was written by a newer version of p3-advisor: its schema is {found[:60]},"
            f" this version reads {schema}",
            "upgrade p3-advisor where it is read, with pip install --upgrade p3-advisor",
        )
