"""The index over the runs: what the history lists of each, so that only runs that went on are read.

Nothing fails for want of it.
"""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from advisor.domain.run import fleet_of

COLUMNS = ["run_id", "bytes", "created", "model", "device", "finished", "imported"]
TABLE = "run_id TEXT PRIMARY KEY, bytes INTEGER, created TEXT, model TEXT, device TEXT, finished INTEGER, imported INTEGER"
READ = "SELECT run_id, bytes, created, model, device, finished, imported FROM runs"
Done = TypeVar("Done")
#: Whoever else writes needs milliseconds.
PATIENCE_SECONDS = 1.0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One run as the history lists it."""

    run_id: str
    created: str
    model: str
    device: str
    finished: bool
    #: Made on another machine.
    imported: bool = False
    #: What the user wrote about it.
    note: str = ""

    @property
    def is_waiting(self) -> bool:
        """Whether it was not finished and would go on here."""
        return not self.finished and not self.imported and fleet_of(self.run_id) is None


class Index:
    """The index in one file; it knows and keeps nothing where the file cannot be used."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self._is_usable = True

    def read(self) -> dict[str, tuple[int, Entry]]:
        """Return the runs that are known, by id, each with the size that its events had then."""
        return self._do(lambda index: dict(map(_known, index.execute(READ)))) or {}

    def write(self, changed: Mapping[str, tuple[int, Entry]], gone: Iterable[str]) -> None:
        """Keep what has changed, and forget the runs that are gone."""
        rows = [_row(size, entry) for size, entry in changed.values()]

        def put(index: sqlite3.Connection) -> None:
            index.executemany("DELETE FROM runs WHERE run_id = ?", [(run_id,) for run_id in gone])
            index.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

        if self._is_usable:
            self._do(put)

    def _do(self, action: Callable[[sqlite3.Connection], Done]) -> Done | None:
        """Do something with the index, if it can be used; one that is damaged or of another layout is removed."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with (
                contextlib.closing(sqlite3.connect(self._file, timeout=PATIENCE_SECONDS)) as index,
                index,
            ):
                _lay_out(index)
                return action(index)
        except (OSError, sqlite3.OperationalError):
            # It is locked, or where nobody can write: it may be whole.
            self._is_usable = False
        except (sqlite3.DatabaseError, msgspec.ValidationError):
            # It holds nothing that the runs do not.
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)
        return None


def _lay_out(index: sqlite3.Connection) -> None:
    """Make the table if there is none; raise `DatabaseError` for another one."""
    index.execute(f"CREATE TABLE IF NOT EXISTS runs ({TABLE})")
    if [row[1] for row in index.execute("PRAGMA table_info(runs)")] != COLUMNS:
        message = "the index is of another layout"
        raise sqlite3.DatabaseError(message)


def _known(row: tuple[Any, ...]) -> tuple[str, tuple[int, Entry]]:
    run_id, size, created, model, device, finished, imported = row
    told = {"run_id": run_id, "created": created, "model": model, "device": device}
    return run_id, (
        size,
        msgspec.convert({**told, "finished": bool(finished), "imported": bool(imported)}, Entry),
    )


def _row(size: int, entry: Entry) -> tuple[Any, ...]:
    return (
        entry.run_id,
        size,
        entry.created,
        entry.model,
        entry.device,
        entry.finished,
        entry.imported,
    )
