"""One run's directory: its header, its events, which one process at a time appends to and any may follow, and what belongs to them."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from advisor.domain.plan import folder_of
from advisor.domain.run import SCHEMA, Header
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import RunState, fold
from advisor.errors import NotWritableError, RunFileError, RunIsActiveError

NOTE = "note"
OTHERS = "see p3-advisor history for others"
#: The variable that names the directory of all runs.
HOME_VARIABLE = "P3_ADVISOR_HOME"
#: What decoding raises for bytes that are none of ours; of a string that is not UTF-8 msgspec lets
#: Python tell.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Run:
    """One run's directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.arms = directory / "arms"
        self.scratch = directory / "scratch"
        self._events = directory / "events.jsonl"

    def header(self) -> Header:
        """Read `run.json`; raise `RunFileError` if it is damaged or of a newer program."""
        file = self.directory / "run.json"
        try:
            raw = file.read_bytes()
            schema = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).get("schema", b"null")
            if msgspec.json.decode(schema) != SCHEMA:
                what = (
                    f"{file} has the schema {bytes(schema).decode()}, this program reads {SCHEMA}"
                )
                raise RunFileError(
                    what, "use the version of p3-advisor that wrote it, or a newer one"
                )
            return msgspec.json.decode(raw, type=Header)
        except OSError as problem:
            raise RunFileError(
                f"{file} cannot be read: {problem.strerror}", "see p3-advisor history"
            ) from problem
        except UNREADABLE as problem:
            raise RunFileError(f"{file} is damaged: {problem}", OTHERS) from problem

    def events(self) -> list[LoggedEvent]:
        """Read all events; a last line that was not written whole is left out."""
        try:
            lines = self._events.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise RunFileError(
                f"{self._events} cannot be read: {problem.strerror}", OTHERS
            ) from problem
        try:
            # What follows the last line break was being written when the run was killed.
            return [msgspec.json.decode(line, type=LoggedEvent) for line in lines[:-1]]
        except UNREADABLE as problem:
            raise RunFileError(f"{self._events} is damaged: {problem}", OTHERS) from problem

    def events_after(self, place: int) -> tuple[list[LoggedEvent], int]:
        """Read the events behind byte `place` of the file that are written whole; return them and the place behind them."""
        try:
            with self._events.open("rb") as file:
                file.seek(place)
                text = file.read()
        except OSError as problem:
            raise RunFileError(
                f"{self._events} cannot be read: {problem.strerror}", OTHERS
            ) from problem
        whole = text[: text.rfind(b"\n") + 1]
        try:
            return [
                msgspec.json.decode(line, type=LoggedEvent) for line in whole.splitlines()
            ], place + len(whole)
        except UNREADABLE as problem:
            raise RunFileError(f"{self._events} is damaged: {problem}", OTHERS) from problem

    def state(self) -> RunState:
        """Fold all events; raise `RunFileError` where some are missing, do not fit together or have no plan."""
        events = self.events()
        if not events:
            what = f"run {self.directory.name} was ended before its plan was stored"
            raise RunFileError(
                what, f"ask again; p3-advisor delete {self.directory.name} removes it"
            )
        try:
            state = fold(events)
        except (LookupError, ValueError) as problem:
            raise RunFileError(
                f"{self._events} is damaged: its events do not fit together: {problem}", OTHERS
            ) from problem
        if state.plan is None or [event.seq for event in events] != list(range(1, len(events) + 1)):
            raise RunFileError(f"{self._events} is damaged: some of its events are missing", OTHERS)
        return state

    def note(self) -> str:
        """Return what the user wrote about the run."""
        try:
            return (self.directory / NOTE).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def write_note(self, text: str) -> None:
        """Keep a line about the run; an empty one removes it."""
        content, file = " ".join(text.split()).encode(errors="replace"), self.directory / NOTE
        half = file.with_name(f"{NOTE}.new")
        try:
            if content:
                half.write_bytes(content)
                half.replace(file)
            else:
                file.unlink(missing_ok=True)
        except OSError as problem:
            raise NotWritableError(
                f"{self.directory} cannot be written: {problem.strerror}", "make it writable"
            ) from problem

    def is_active(self) -> bool:
        """Say whether some process works on the run."""
        try:
            with (self.directory / "lock").open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def log_of(self, arm: str, process: int) -> pathlib.Path:
        """Return the file with what a worker's stack printed."""
        return self.arms / folder_of(arm) / str(process) / "log"

    @contextlib.contextmanager
    def writer(self) -> Iterator[Writer]:
        """Hold the run's lock and append events; raise `RunIsActiveError` if another process does."""
        try:
            lock = (self.directory / "lock").open("w")
        except OSError as problem:
            raise NotWritableError(
                f"{self.directory} cannot be written: {problem.strerror}", "make it writable"
            ) from problem
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as problem:
                what = f"another process works on run {self.directory.name}"
                raise RunIsActiveError(what, "wait for it, or end it") from problem
            self._cut_half_line()
            # Without a buffer: closing one that could not be emptied would raise once more, and not
            # what `Writer` raises.
            with self._events.open("ab", buffering=0) as file:
                yield Writer(file)

    def rewrite(
        self, events: Iterable[LoggedEvent], logs: Mapping[pathlib.PurePosixPath, bytes]
    ) -> None:
        """Put a run that was made elsewhere in the place of what is here: all events, and the workers' logs."""
        whole = self._events.with_suffix(".new")
        whole.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
        whole.replace(self._events)
        for place, text in logs.items():
            if place.is_absolute() or ".." in place.parts:
                raise RunFileError(
                    f"a log of {self.directory.name} would be written to {place}",
                    "do not trust where it comes from",
                )
            file = self.directory / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)

    def clear_scratch(self) -> None:
        """Remove what only an unfinished run needs."""
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _cut_half_line(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            text = self._events.read_bytes()
            if not text.endswith(b"\n"):
                os.truncate(self._events, text.rfind(b"\n") + 1)


class Writer:
    """Appends events to a file without a buffer: what is written survives this process."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file

    def append(self, event: LoggedEvent) -> None:
        """Append one event."""
        line = msgspec.json.encode(event) + b"\n"
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as problem:
            raise NotWritableError(
                f"the run cannot be stored: {problem.strerror}",
                f"make room, or set {HOME_VARIABLE}",
            ) from problem
