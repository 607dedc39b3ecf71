"""The installed command on a pseudo-terminal: its screens, its exit, and its processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Sequence

import psutil
import pytest
import workers
from forks import run_command

from advisor.store.runs import Run

pytestmark = pytest.mark.slow

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")
TIMEOUT_SECONDS = 200
FAKES = pathlib.Path(__file__).parents[1] / "fakes"
ENTER_ALTERNATE_SCREEN, LEAVE_ALTERNATE_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
RELEASE_MOUSE = b"\x1b[?1003l"
CTRL_C, CTRL_Q, CTRL_R, CTRL_Z = b"\x03", b"\x11", b"\x12", b"\x1a"
#: Select Graphic Rendition with a colour; 39 and 49 select the default colours.
COLOUR_SEQUENCE = re.compile(
    rb"\x1b\[[0-9;]*?(?<![0-9])(3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m"
)


class Terminal(contextlib.AbstractContextManager["Terminal"]):
    """A program on a new pseudo-terminal."""

    def __init__(
        self,
        *arguments: str,
        home: pathlib.Path,
        command: Sequence[str] = (str(COMMAND),),
        **variables: str,
    ) -> None:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"CI", "NO_COLOR", "PYTHONDONTWRITEBYTECODE"}
        }
        environment |= {"TERM": "xterm-256color", "P3_ADVISOR_HOME": str(home), **variables}
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execve(command[0], [*command, *arguments], environment)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.out, self._since = b"", 0

    @property
    def latest(self) -> bytes:
        """What was drawn since the last keys or signal."""
        return self.out[self._since :]

    def press(self, keys: bytes) -> None:
        self._since = len(self.out)
        os.write(self._fd, keys)

    def go_on(self) -> None:
        """Continue the program after it was suspended."""
        self._since = len(self.out)
        os.kill(self.pid, signal.SIGCONT)

    def wait_for(self, text: bytes) -> None:
        """Wait until this text is drawn that was not there before the last keys."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while text not in self.latest and self._read():
            assert time.monotonic() < end, self.out[-2000:]
        assert text in self.latest, self.out[-2000:]

    def start_run(self) -> None:
        """Start measuring, also on a machine that the screens report as busy."""
        self.press(CTRL_R)
        self.wait_for(b"Do not start")
        self.press(b"s" if b"Start now" in self.latest else b"y")
        self.wait_for(b"elapsed")

    def wait(self) -> int:
        while self._read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        if select.select([self._fd], [], [], 0.1)[0]:
            try:
                new = os.read(self._fd, 65536)
            except OSError:
                return False
            self.out += new
            return bool(new)
        return True

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        os.close(self._fd)


def processes_of(home: pathlib.Path) -> list[psutil.Process]:
    """Return the processes with a command line that contains `home`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                any(str(home) in argument for argument in process.cmdline())
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


def test_the_first_screen_imports_neither_the_stages_nor_a_stack() -> None:
    script = "import sys, advisor.cli, advisor.tui.app; print(*sys.modules)"
    loaded = set(run_command([sys.executable, "-c", script]).stdout.split())
    assert "textual.app" in loaded
    stages = {"advisor.decide", "advisor.execute", "advisor.probing.detection", "advisor.report"}
    assert not {*stages, "psutil", "scipy", "numpy", "torch", "jinja2"} & loaded


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_signal_during_a_run_leaves_no_process(
    number: signal.Signals, home: pathlib.Path
) -> None:
    with Terminal("ask", "--gpu", "cpu", "--budget", "60s", home=home) as screen:
        screen.wait_for(b"Which model")
        screen.start_run()
        workers.wait_until(lambda: processes_of(home), TIMEOUT_SECONDS)
        os.kill(screen.pid, number)
        status = screen.wait()
        if number == signal.SIGKILL:
            assert status == -number
        else:
            assert status == 128 + number
            assert LEAVE_ALTERNATE_SCREEN in screen.out
            assert RELEASE_MOUSE in screen.out
    workers.wait_until(lambda: not processes_of(home), TIMEOUT_SECONDS)


def test_a_run_continues_while_the_program_is_suspended(
    home: pathlib.Path, fake_probes: pathlib.Path, fake_catalogue: pathlib.Path
) -> None:
    command = [sys.executable, *map(str, (FAKES / "show.py", fake_probes, fake_catalogue, home))]
    with Terminal(
        "gpu=cpu", "workflows=quick", "batch_sizes=1", "budget=30s", home=home, command=command
    ) as screen:
        screen.wait_for(b"Which model")
        screen.start_run()
        screen.press(CTRL_Z)
        screen.wait_for(LEAVE_ALTERNATE_SCREEN)
        assert RELEASE_MOUSE in screen.latest
        assert os.WIFSTOPPED(os.waitpid(screen.pid, os.WUNTRACED)[1])
        (run,) = (home / "runs").iterdir()
        events = run / "events.jsonl"
        workers.wait_until(lambda: b'"finished"}' in events.read_bytes(), TIMEOUT_SECONDS)
        screen.go_on()
        screen.wait_for(ENTER_ALTERNATE_SCREEN)
        screen.wait_for(b"Evidence")
        screen.press(CTRL_Q)
        assert screen.wait() == 0


#: A command that removes what it made when it is interrupted, and the program with it.
ENDLESS_COMMAND = """
import time
try:
    print("made", flush=True)
    time.sleep(3600)
finally:
    print("removed", flush=True)
"""
WITH_ENDLESS_COMMAND = f"""
import sys
from advisor.tui import app
app.ADVISOR_COMMAND = sys.executable, "-c", {ENDLESS_COMMAND!r}
from advisor.cli.command_line import main
main()
"""


def test_a_command_has_the_terminal_and_ctrl_c_ends_it_alone(recorded: Run) -> None:
    command = sys.executable, "-c", WITH_ENDLESS_COMMAND
    directory = recorded.directory
    with Terminal(
        "ask", "--open", directory.name, home=directory.parents[1], command=command
    ) as screen:
        screen.wait_for(b"Evidence")
        screen.press(b"v")
        screen.wait_for(b"Not now")
        screen.press(b"y")
        screen.wait_for(b"made")
        assert LEAVE_ALTERNATE_SCREEN in screen.latest
        screen.press(CTRL_C)
        screen.wait_for(b"removed")
        screen.wait_for(b"Press enter")
        screen.press(b"\r")
        screen.wait_for(ENTER_ALTERNATE_SCREEN)
        screen.wait_for(b"Evidence")
        screen.press(CTRL_Q)
        assert screen.wait() == 0


def test_m_prints_the_checks_of_the_machine_and_the_exit_restores_the_terminal(
    home: pathlib.Path,
) -> None:
    with Terminal(home=home) as screen:
        screen.wait_for(b"recommends one")
        screen.go_on()  # though it was not suspended
        screen.press(b"m")
        screen.wait_for(b"Press enter")
        assert b"python" in screen.latest
        screen.press(b"\r")
        screen.wait_for(ENTER_ALTERNATE_SCREEN)
        # The terminal itself takes Ctrl-Q until the program is in raw mode, so wait for its screen.
        screen.wait_for(b"recommends one")
        screen.press(CTRL_Q)
        assert screen.wait() == 0
        assert LEAVE_ALTERNATE_SCREEN in screen.latest
        assert RELEASE_MOUSE in screen.latest


def test_with_no_color_no_colour_is_drawn(sample_run: Run, home: pathlib.Path) -> None:
    with Terminal("ask", "--open", str(sample_run.directory), home=home, NO_COLOR="1") as screen:
        screen.wait_for(b"Evidence")
        screen.press(b"2")
        screen.wait_for(b"> Performance")
        screen.press(b"+")
        screen.wait_for(b"With these weights")
        screen.press(CTRL_Q)
        assert screen.wait() == 0
    assert COLOUR_SEQUENCE.findall(screen.out) == []


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        pytest.param("{command} </dev/null", {}, id="no input"),
        pytest.param("{command} | cat", {}, id="a pipe"),
        pytest.param("{command} 2>{file}", {}, id="errors to a file"),
        pytest.param("{command}", {"TERM": "dumb"}, id="a dumb terminal"),
        pytest.param("{command}", {"CI": "true"}, id="continuous integration"),
    ],
)
def test_without_a_terminal_a_short_help_is_printed_without_escape_sequences(
    line: str, variables: dict[str, str], home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "file"
    script = f"set -o pipefail; {line.format(command=COMMAND, file=file)}; echo exit code $?"
    with Terminal("-c", script, home=home, command=["/bin/bash"], **variables) as screen:
        screen.wait()
    printed = screen.out + (file.read_bytes() if file.exists() else b"")
    assert b"exit code 2" in screen.out
    assert b"--json" in printed
    assert b"\x1b" not in printed
