"""A run in a few fields, as lists show it; cached in its directory, so that it is read once."""

from __future__ import annotations

import contextlib
import os
import pathlib

import msgspec

from advisor.domain.answer import AnswerSummary
from advisor.domain.run import fleet_id_of
from advisor.store.decoders import DECODE_ERRORS
from advisor.system.atomic_write import write_atomically
from advisor.version import __version__

FILE_NAME = "entry.json"


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the history."""

    run_id: str
    created: str
    model: str
    device: str
    finished: bool
    #: Whether any calls were timed; false for a run that failed or was stopped before.
    measured: bool
    #: Whether it was imported from another machine.
    imported: bool = False
    #: Note of the user.
    note: str = ""
    #: Null before it is decided, and for a run that is not finished.
    answer: AnswerSummary | None = None

    @property
    def is_resumable(self) -> bool:
        return not self.finished and not self.imported and fleet_id_of(self.run_id) is None


class _CachedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, with the version and the size of the events that it was made from."""

    version: str
    events_bytes: int
    entry: HistoryEntry


#: Made here for the reason in `decoders`.
_DECODER = msgspec.json.Decoder(_CachedEntry)


def load_entry(directory: str, events_bytes: int) -> HistoryEntry | None:
    """Return the cached entry; None if there is none of these events and this version."""
    try:
        with open(f"{directory}/{FILE_NAME}", "rb") as file:  # noqa: PTH123 - see `Store._ids`
            cached = _DECODER.decode(file.read())
    except (OSError, *DECODE_ERRORS):
        return None
    is_current = (cached.version, cached.events_bytes) == (__version__, events_bytes)
    is_own = cached.entry.run_id == os.path.basename(directory)  # noqa: PTH119 - as above
    return cached.entry if is_current and is_own else None


def save_entry(directory: str, events_bytes: int, entry: HistoryEntry) -> None:
    """Cache an entry that was made from so many bytes of events, if the run can be written."""
    cached = _CachedEntry(version=__version__, events_bytes=events_bytes, entry=entry)
    with contextlib.suppress(OSError):
        write_atomically(pathlib.Path(directory, FILE_NAME), msgspec.json.encode(cached))
