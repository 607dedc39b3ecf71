"""Run our own terminal program on a pseudo-terminal, replaying a recorded run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator

from advisor.store.runs import Run
from advisor.system.import_path import ADVISOR_COMMAND, without_current_directory

#: At half the recorded speed, because the screens are stopped most of the time and the replay must
#: last until the end of the check.
REPLAY_SPEED = 0.5
#: The screens count as started after this much output or this long.
FIRST_SCREEN_BYTES, FIRST_SCREEN_SECONDS = 2000, 30.0
ROWS, COLUMNS = 40, 140


class ReplayScreens:
    """The terminal program in a process of its own, which is stopped except while it draws."""

    def __init__(self, run: Run) -> None:
        self._command = [
            *ADVISOR_COMMAND,
            "--replay",
            str(run.directory),
            "--speed",
            str(REPLAY_SPEED),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def started(self) -> Iterator[ReplayScreens]:
        """Start the program, wait for its first screen and stop it; kill it after the block."""
        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {
            name: value
            for name, value in without_current_directory(os.environ).items()
            if name not in {"CI", "NO_COLOR"}
        } | {"TERM": "xterm-256color"}
        with subprocess.Popen(  # noqa: S603 - an argument list, no shell
            self._command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
            start_new_session=True,
        ) as self._process:
            os.close(terminal)
            first_screen_drawn = threading.Event()
            reader = threading.Thread(
                target=_drain, args=(controller, first_screen_drawn), name="screens", daemon=True
            )
            reader.start()
            first_screen_drawn.wait(FIRST_SCREEN_SECONDS)
            self._process.send_signal(signal.SIGSTOP)
            try:
                yield self
            finally:
                self._process.kill()
                self._process.wait()
                reader.join()
                os.close(controller)

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """Let the program draw while the block runs."""
        assert self._process is not None  # noqa: S101 - for the type checker: within `started`
        self._process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGSTOP)


def _drain(terminal: int, first_screen_drawn: threading.Event) -> None:
    """Read the output until the program ends; a full terminal would block the program."""
    count = 0
    with contextlib.suppress(OSError):
        while received := os.read(terminal, 1 << 16):
            count += len(received)
            if count >= FIRST_SCREEN_BYTES:
                first_screen_drawn.set()
    first_screen_drawn.set()
