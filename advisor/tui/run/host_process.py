"""Start and control the process that works on a run; `advisor.cli.run_host` is its other side.

The run continues in that process while screens open and close.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from advisor.store.runs import Run
from advisor.system.import_path import ADVISOR_COMMAND, without_current_directory

HOST_COMMAND = (*ADVISOR_COMMAND, "host")
LOG_NAME = "host.log"
TERMINATION_SECONDS = 3.0
ERROR_PREFIX = "p3-advisor: "


class HostProcess:
    """The process that works on one run.

    If this process is killed, the standard input of the other closes, and it ends the run.
    """

    def __init__(self, run: Run, command: tuple[str, ...] = HOST_COMMAND) -> None:
        self._log = run.directory / LOG_NAME
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - an argument list, no shell
                [*command, str(run.directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=without_current_directory(os.environ),
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        if self._process.poll() is None:
            return True
        self._close_pipe()
        return False

    def detach(self) -> None:
        """Let the process continue after this one ends."""
        assert self._process.stdin is not None  # noqa: S101 - for the type checker: stdin=PIPE
        with contextlib.suppress(BrokenPipeError, ValueError):  # the process has ended
            self._process.stdin.write(b"stay\n")
            self._process.stdin.flush()
        self._close_pipe()

    def _close_pipe(self) -> None:
        assert self._process.stdin is not None  # noqa: S101 - as above
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def cancel(self) -> None:
        """Ask the process to end the run; the measurements are kept."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def terminate(self) -> None:
        """End the process, and with it the workers, before this call returns."""
        self.cancel()
        try:
            self._process.wait(TERMINATION_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close_pipe()

    def failure_reason(self) -> str:
        """Return the last two lines that the process wrote to standard error."""
        try:
            content = self._log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        lines = [
            line.removeprefix(ERROR_PREFIX).strip() for line in content.splitlines() if line.strip()
        ]
        return "; ".join(lines[-2:])
