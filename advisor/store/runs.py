"""One run's directory: its header, its events and the files that belong to them.

One process at a time appends events; any number of processes read them.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pathlib
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Literal

import msgspec

from advisor.domain import errors
from advisor.domain.answer import Answer, AnswerSummary
from advisor.domain.event_folding import fold_run
from advisor.domain.plan import arm_directory_name
from advisor.domain.results import Instant
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import SCHEMA, Header, RunState
from advisor.domain.version import __version__
from advisor.domain.wire import decode_event
from advisor.store import files
from advisor.store.control import RunControl

#: Built when this is imported: if two threads decode a type for the first time at once, as the
#: terminal program may, msgspec (0.22) crashes the process while it resolves the fields.
HEADERS = msgspec.json.Decoder(Header)
EVENTS = msgspec.json.Decoder(LoggedEvent, dec_hook=decode_event)
ANSWERS = msgspec.json.Decoder(Answer)
#: Errors of content that is damaged; a string that is not UTF-8 raises Python's error.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Versioned(msgspec.Struct):
    schema: str


_VERSIONED = msgspec.json.Decoder(_Versioned)


def refuse_newer(content: bytes, schema: str, name: str) -> None:
    """Raise `NewerVersionError` if `name` has a newer version of this schema in its content."""
    kind, _, version = schema.rpartition("/")
    found = ""
    with contextlib.suppress(*DECODE_ERRORS):
        found = _VERSIONED.decode(content).schema
    found_kind, _, found_version = found.rpartition("/")
    is_number = re.fullmatch(r"[1-9][0-9]*", found_version) is not None
    # No integer is made of it, because Python refuses one of thousands of digits.
    is_greater = (len(found_version), found_version) > (len(version), version)
    if found_kind == kind and is_number and is_greater:
        raise errors.NewerVersionError(
            f"{name} was written by a newer version of p3-advisor: its schema is {found[:60]},"
            f" this version reads {schema}",
            "update the checkout of p3-advisor where it is read",
        )


EVENTS_FILE, ENTRY, NOTE = "events.jsonl", "entry.json", "note"
SEE_HISTORY = "see p3-advisor history for other runs"
#: Attempts to lock a run, and the pause between two: programs that ask whether it is active hold
#: its lock for a moment.
LOCK_ATTEMPTS, LOCK_PAUSE_SECONDS = 20, 0.01
RunStatus = Literal["running", "paused", "stopped", "finished", "imported"]
#: States of runs that a process works on.
GOING_ON: tuple[RunStatus, ...] = ("running", "paused")


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a few fields, as lists show it; cached in its directory, so that it is read once."""

    run_id: str
    created: Instant
    model: str
    device_name: str
    finished: bool
    #: Whether any calls were timed; false for a run that failed or was stopped before.
    measured: bool
    #: Whether it was imported: a list has no runs from outside the store.
    foreign: bool = False
    note: str = ""
    #: Null before it is decided, and for a run that is not finished.
    answer: AnswerSummary | None = None

    def shortcoming(self, state: RunStatus) -> str:
        """Say that a run in this state measured nothing; else empty."""
        return "" if self.measured or state in GOING_ON else "no measurement"


class _CachedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, with the version and the size of the events that it was made from."""

    version: str
    events_bytes: int
    entry: HistoryEntry


_ENTRIES = msgspec.json.Decoder(_CachedEntry)


def load_entry(directory: str, events_bytes: int) -> HistoryEntry | None:
    """Return the cached entry; None if it is missing, or of other events or another version."""
    try:
        with open(f"{directory}/{ENTRY}", "rb") as file:  # noqa: PTH123 - see `Store._ids`
            cached = _ENTRIES.decode(file.read())
    except (OSError, *DECODE_ERRORS):
        return None
    is_current = (cached.version, cached.events_bytes) == (__version__, events_bytes)
    is_own = cached.entry.run_id == os.path.basename(directory)  # noqa: PTH119 - as above
    return cached.entry if is_current and is_own else None


def save_entry(directory: str, events_bytes: int, entry: HistoryEntry) -> None:
    """Cache an entry that was made from this many bytes of events, if the run can be written."""
    cached = _CachedEntry(version=__version__, events_bytes=events_bytes, entry=entry)
    with contextlib.suppress(OSError):
        files.write_atomically(pathlib.Path(directory, ENTRY), msgspec.json.encode(cached))


def size_of_events(directory: str) -> int:
    """Return the size of the stored events of a run; 0 without any.

    Events are only appended, so a run has changed if and only if this has.
    """
    try:
        return os.stat(f"{directory}/{EVENTS_FILE}").st_size  # noqa: PTH116 - see `Store._ids`
    except OSError:
        return 0


class Run:
    """One run's directory."""

    def __init__(self, directory: pathlib.Path, *, is_outside: bool = False) -> None:
        """Open a run; one that `is_outside` the store is foreign."""
        self.directory = directory
        self._is_outside = is_outside
        self.arms = directory / "arms"
        self.scratch = directory / "scratch"
        self.header_file, self.events_file = directory / "run.json", directory / EVENTS_FILE

    def header(self) -> Header:
        """Read `run.json`; raise `RunFileError` or `NewerVersionError`."""
        file = self.header_file
        with _reading(file):
            raw = files.read_regular(file)
        refuse_newer(raw, SCHEMA, str(file))
        try:
            header = HEADERS.decode(raw)
        except DECODE_ERRORS as problem:
            raise _not_decoded(file, problem) from problem
        return msgspec.structs.replace(header, foreign=header.foreign or self._is_outside)

    def events(self) -> list[LoggedEvent]:
        with _reading(self.events_file), contextlib.suppress(FileNotFoundError):
            return self._decode_events(files.read_regular(self.events_file))[0]
        return []

    def read_events_after(self, offset: int) -> tuple[list[LoggedEvent], int]:
        """Read the complete events after a byte of the file; return them and the next offset."""
        with _reading(self.events_file):
            events, size = self._decode_events(files.read_regular(self.events_file, offset))
        return events, offset + size

    def written_at(self) -> float:
        """Return when the last event was stored, in seconds since the epoch."""
        with _reading(self.events_file):
            return self.events_file.stat().st_mtime

    def _decode_events(self, content: bytes) -> tuple[list[LoggedEvent], int]:
        """Return the complete events in the rest of the file and their size in bytes."""
        # A line without a line break is still being written, or the writer was killed.
        *lines, partial = content.split(b"\n")
        try:
            events = [EVENTS.decode(line) for line in lines]
        except DECODE_ERRORS as problem:
            self.header()  # which raises another error for a newer version
            raise _not_decoded(self.events_file, problem) from problem
        return events, len(content) - len(partial)

    def state(self) -> RunState:
        """Fold all events; raise `RunFileError` if they are not those of one run with a plan."""
        events = self.events()
        if not events:
            raise errors.RunFileError(
                f"run {self.directory.name} was stopped before its plan was stored",
                f"ask again; p3-advisor delete {self.directory.name} removes it",
            )
        what = f"{self.events_file} is damaged: its events do not fit together"
        with errors.reported_as(errors.RunFileError, what, SEE_HISTORY, (LookupError, ValueError)):
            return fold_run(events)

    def note(self) -> str:
        try:
            return files.read_regular(self.directory / NOTE).decode("utf-8", "replace")
        except OSError:
            return ""

    def write_note(self, text: str) -> None:
        """Store the user's note as one line; an empty note removes the file."""
        content, file = " ".join(text.split()).encode(errors="replace"), self.directory / NOTE
        with files.report_unwritable(self.directory):
            if content:
                files.write_atomically(file, content)
            else:
                file.unlink(missing_ok=True)

    @property
    def control(self) -> RunControl:
        return RunControl(self.directory)

    def is_active(self) -> bool:
        """Ask for the lock as one of several readers, so that two askers do not see each other."""
        try:
            with files.open_regular(self.directory / "lock")[0] as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def worker_log_path(self, arm: str, process: int) -> pathlib.Path:
        return self.arms / arm_directory_name(arm) / str(process) / "log"

    @contextlib.contextmanager
    def writer(self) -> Iterator[Writer]:
        """Hold the run's lock and append events; raise `RunIsActiveError` if it is held."""
        with files.report_unwritable(self.directory):
            lock = (self.directory / "lock").open("w")
        with lock:
            if not _lock(lock):
                raise errors.RunIsActiveError(
                    f"another process works on run {self.directory.name}", "wait for it, or stop it"
                )
            self._remove_partial_line()
            # Without a buffer, closing the file cannot raise an error that `Writer` does not raise.
            with self.events_file.open("ab", buffering=0) as file:
                yield Writer(file)

    def clear_scratch(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)

    def clear_scratch_of_others(self) -> None:
        """Remove the builds of the other finished runs next to this one."""
        for directory in self.directory.parent.iterdir():
            other = Run(directory)
            if other.scratch.is_dir() and directory != self.directory and not other.is_active():
                with contextlib.suppress(errors.RunFileError):
                    if other.state().finished:
                        other.clear_scratch()

    def _remove_partial_line(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            content = self.events_file.read_bytes()
            if not content.endswith(b"\n"):
                os.truncate(self.events_file, content.rfind(b"\n") + 1)


def _reading(file: pathlib.Path) -> AbstractContextManager[None]:
    """Raise `RunFileError` for an `OSError` of the block."""
    return errors.reported_as(errors.RunFileError, f"{file} cannot be read", SEE_HISTORY)


def _not_decoded(file: pathlib.Path, problem: Exception) -> errors.RunFileError:
    """Return the error for a file that is not JSON or whose fields do not match this version."""
    if isinstance(problem, msgspec.ValidationError):
        return errors.RunFileError(
            f"{file} was written by another version of p3-advisor, or changed: {problem}",
            "read it with the version that wrote it, or measure again",
        )
    return errors.RunFileError(f"{file} is damaged: {problem}", SEE_HISTORY)


def _lock(file: io.TextIOWrapper) -> bool:
    """Lock the file for this process alone; return whether that was possible."""
    for attempt in range(LOCK_ATTEMPTS):
        if attempt:
            time.sleep(LOCK_PAUSE_SECONDS)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


class Writer:
    """Appends events to an unbuffered file, so that they survive a killed process."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file

    def append(self, event: LoggedEvent) -> None:
        """Append one event; raise `NotWritableError` if the disk is full."""
        line = msgspec.json.encode(event) + b"\n"
        next_step = f"free disk space, or set {files.HOME_VARIABLE}"
        with errors.reported_as(errors.NotWritableError, "the run cannot be stored", next_step):
            while line:
                line = line[self._file.write(line) :]
