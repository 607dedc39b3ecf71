"""Control a run from another process of the same user, through files in its directory.

control    commands as lines, appended: pause, go, cancel, skip ARM
state      `paused` while the run is paused
"""

from __future__ import annotations

import contextlib
import os
import pathlib

from advisor.domain.errors import RunNotControllableError, reported_as
from advisor.store.files import open_regular, write_atomically

COMMANDS, STATE = "control", "state"
PAUSED = "paused"
OWNER_ONLY = 0o600


class RunControl:
    """The control files of one run; only files of this user count."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._commands, self._state = directory / COMMANDS, directory / STATE

    def send(self, command: str) -> None:
        """Raise `RunNotControllableError` if the run belongs to another user."""
        what, next_step = (
            "the run cannot be controlled from here",
            "use the program that started it",
        )
        with reported_as(RunNotControllableError, what, next_step):
            if self._commands.parent.stat().st_uid != os.geteuid():
                raise PermissionError(None, "it belongs to another user")
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            descriptor = os.open(self._commands, flags, OWNER_ONLY)
            with os.fdopen(descriptor, "wb") as file:
                file.write(f"{command}\n".encode())

    def read_commands(self, offset: int) -> tuple[list[str], int]:
        """Return the complete lines after a byte, and the next offset; none of another user."""
        try:
            file, _ = open_regular(self._commands)
        except OSError:
            return [], offset
        with file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return [], offset
            file.seek(offset)
            *lines, _ = file.read().split(b"\n")
        size = sum(len(line) + 1 for line in lines)
        return [line.decode("utf-8", "replace") for line in lines], offset + size

    def set_paused(self, *, paused: bool) -> None:
        with contextlib.suppress(OSError):
            if paused:
                write_atomically(self._state, PAUSED.encode())
            else:
                self._state.unlink(missing_ok=True)

    def is_paused(self) -> bool:
        """Return whether the run is paused; it means nothing when no process works on it."""
        try:
            return self._state.read_text(encoding="utf-8", errors="replace") == PAUSED
        except OSError:
            return False

    def clear(self) -> None:
        for file in (self._commands, self._state):
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
