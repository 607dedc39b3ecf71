"""An optional SQLite cache of the history, so that only changed runs are read again."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from advisor.domain.answer import AnswerSummary
from advisor.domain.run import fleet_id_of

#: Columns of the table and their types.
COLUMNS = {
    "run_id": "TEXT PRIMARY KEY",
    "bytes": "INTEGER",
    "created": "TEXT",
    "model": "TEXT",
    "device": "TEXT",
    "finished": "INTEGER",
    "measured": "INTEGER",
    "imported": "INTEGER",
}
CREATE = f"CREATE TABLE IF NOT EXISTS runs ({', '.join(map(' '.join, COLUMNS.items()))})"
SELECT = "SELECT run_id, bytes, created, model, device, finished, measured, imported FROM runs"
INSERT = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
T = TypeVar("T")
#: Other writers hold the database for milliseconds.
LOCK_TIMEOUT_SECONDS = 1.0


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
        """Whether the run is unfinished, of this machine and not part of a fleet."""
        return not self.finished and not self.imported and fleet_id_of(self.run_id) is None


class Index:
    """The cache in one file; it is empty where the file cannot be used."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self._is_usable = True

    def read(self) -> dict[str, tuple[int, HistoryEntry]]:
        """Return the cached runs by id, with the size that their event files had."""
        return self._execute(lambda database: dict(map(_decode, database.execute(SELECT)))) or {}

    def write(
        self, changed: Mapping[str, tuple[int, HistoryEntry]], removed: Iterable[str]
    ) -> None:
        """Cache the changed runs and drop the removed ones."""
        rows = [_encode(size, entry) for size, entry in changed.values()]

        def update(database: sqlite3.Connection) -> None:
            ids = [(run_id,) for run_id in removed]
            database.executemany("DELETE FROM runs WHERE run_id = ?", ids)
            database.executemany(INSERT, rows)

        if self._is_usable:
            self._execute(update)

    def _execute(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of `action` on the database; None where it cannot be used.

        A database that is damaged or has another layout is removed.
        """
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self._file, timeout=LOCK_TIMEOUT_SECONDS)
            with contextlib.closing(connection) as database, database:
                _ensure_table(database)
                return action(database)
        except (OSError, sqlite3.OperationalError):
            # The database is locked or not writable, and may be intact: leave it.
            self._is_usable = False
        except (sqlite3.DatabaseError, msgspec.ValidationError, UnicodeDecodeError):
            # The runs hold the same data, so the next call makes a new database.
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)
        return None


def _ensure_table(database: sqlite3.Connection) -> None:
    """Create the table if it is missing; raise `DatabaseError` for another layout."""
    database.execute(CREATE)
    if [row[1] for row in database.execute("PRAGMA table_info(runs)")] != list(COLUMNS):
        message = "the index has another layout"
        raise sqlite3.DatabaseError(message)


def _decode(row: tuple[Any, ...]) -> tuple[str, tuple[int, HistoryEntry]]:
    fields = dict(zip(COLUMNS, row, strict=True))
    size = fields.pop("bytes")
    flags = {name: bool(fields[name]) for name in ("finished", "measured", "imported")}
    return fields["run_id"], (size, msgspec.convert({**fields, **flags}, HistoryEntry))


def _encode(size: int, entry: HistoryEntry) -> tuple[Any, ...]:
    return (
        entry.run_id,
        size,
        entry.created,
        entry.model,
        entry.device,
        entry.finished,
        entry.measured,
        entry.imported,
    )
