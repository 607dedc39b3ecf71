"""The process that works on a run while the screens come and go; see `advisor.cli.host` for its side."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

from advisor.store import Run

#: Runs our command line without the current directory on the path, where a file of the user's could
#: have the name of one of ours.
PROGRAM = "import sys; sys.path = [sys.argv.pop(1), *filter(None, sys.path)]; from advisor.cli import main; main()"
OURSELVES = (sys.executable, "-c", PROGRAM, str(pathlib.Path(__file__).parents[3]))
COMMAND = (*OURSELVES, "host")
LOG = "host.log"
GRACE_SECONDS = 3.0


class Host:
    """One such process. When this one is killed, its standard input closes, and it ends the run."""

    def __init__(self, run: Run, command: tuple[str, ...] = COMMAND) -> None:
        self._log = run.directory / LOG
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - an argument list, no shell
                [*command, str(run.directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self._process.stdout is not None  # noqa: S101 - for the type checker: stdout=PIPE
        os.set_blocking(self._process.stdout.fileno(), False)
        self.is_paused = False

    @property
    def is_running(self) -> bool:
        """Whether it still works."""
        if self._process.poll() is None:
            return True
        self._hang_up()
        return False

    def look(self) -> None:
        """Take in whether it has paused."""
        assert self._process.stdout is not None  # noqa: S101 - as above
        if self._process.stdout.closed:
            return
        with contextlib.suppress(BlockingIOError):
            for word in os.read(self._process.stdout.fileno(), 4096).split():
                self.is_paused = word == b"paused"

    def order(self, word: str) -> None:
        """Send an order; one that has ended does not mind."""
        assert self._process.stdin is not None  # noqa: S101 - for the type checker: stdin=PIPE
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()

    def leave_alone(self) -> None:
        """Let it work on without us."""
        self.order("stay")
        self._hang_up()

    def _hang_up(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]

    def cancel(self) -> None:
        """Ask it to end the run; what was measured is kept."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Have it ended before this returns: workers die with it."""
        self.cancel()
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._hang_up()

    def failure_reason(self) -> str:
        """Return why it ended, if it said so."""
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        told = [line.removeprefix("p3-advisor: ").strip() for line in lines if line.strip()]
        return "; ".join(told[-2:])
