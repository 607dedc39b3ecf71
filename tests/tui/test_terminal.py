"""The installed command on a real pseudo-terminal: what it draws, how it leaves, and what it leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence

import psutil
import pytest

from advisor.store import Run

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")
PATIENCE_SECONDS = 200
FAKES = pathlib.Path(__file__).parents[1] / "fakes"
ENTERS_SCREEN, LEAVES_SCREEN, LETS_MOUSE_GO = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?1003l"
#: Select Graphic Rendition with a colour: 39 and 49 mean the terminal's own.
COLOURED = re.compile(rb"\x1b\[[0-9;]*?(?<![0-9])(3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")


class Terminal:
    """A program on a terminal of its own."""

    def __init__(
        self,
        *arguments: str,
        home: pathlib.Path,
        command: Sequence[str] = (str(COMMAND),),
        **more: str,
    ) -> None:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"CI", "NO_COLOR", "PYTHONDONTWRITEBYTECODE"}
        }
        environment |= {"TERM": "xterm-256color", "P3_ADVISOR_HOME": str(home), **more}
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execve(command[0], [*command, *arguments], environment)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.out = b""

    def press(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def wait_for(
        self, words: bytes, since: int = 0, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        end = time.monotonic() + patience_seconds
        while words not in self.out[since:]:
            assert time.monotonic() < end, self.out[-2000:]
            if not self._read():
                break
        assert words in self.out[since:], self.out[-2000:]

    def wait(self) -> int:
        """Return the exit status, read to the end."""
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

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        os.close(self._fd)


@contextlib.contextmanager
def terminal(
    *arguments: str, home: pathlib.Path, command: Sequence[str] = (str(COMMAND),), **more: str
) -> Iterator[Terminal]:
    made = Terminal(*arguments, home=home, command=command, **more)
    try:
        yield made
    finally:
        made.close()


def working_on(home: pathlib.Path) -> list[psutil.Process]:
    """Return the processes that work on runs below `home`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                any(str(home) in word for word in process.cmdline())
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


def test_bare_it_asks_and_q_leaves_the_terminal_as_it_was(home: pathlib.Path) -> None:
    with terminal(home=home) as screen:
        screen.wait_for(b"Which model")
        screen.press(b"\x11")
        assert screen.wait() == 0
        assert LEAVES_SCREEN in screen.out
        assert LETS_MOUSE_GO in screen.out


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_whole_session_with_the_real_stack(home: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = (
        "--gpu",
        "cpu",
        "--workflows",
        "pytorch-eager",
        "--batch-sizes",
        "1",
        "--budget",
        "3",
        "--priority",
    )
    with terminal(
        "ask", "--tui", *options, "performance=50,productivity=30,portability=20", home=home
    ) as screen:
        screen.wait_for(b"Which model")
        screen.press(b"\x12")
        screen.wait_for(b"elapsed")
        screen.wait_for(b"Noise floor", patience_seconds=900)  # three processes import torch
        screen.wait_for(b"Use pytorch-eager")
        since = len(screen.out)
        screen.press(b"w")
        screen.wait_for(b"> Performance", since)
        screen.press(b"l")
        screen.wait_for(b"with these weights", since)
        since = len(screen.out)
        screen.press(b"e")
        screen.wait_for(b"Write", since)  # the line has the focus
        file = tmp_path / "whole.json"
        screen.press(
            str(file).encode()
        )  # the name that is proposed is selected, so that typing replaces it
        screen.wait_for(file.name.encode(), since)
        screen.press(b"\r")
        screen.wait_for(b"written:", since)
        screen.press(b"q")
        assert screen.wait() == 0
        assert LEAVES_SCREEN in screen.out
    document = json.loads(file.read_text())
    assert document["recommendation"]["arm"] == "pytorch-eager"
    assert document["question"]["priorities"]["performance"] == 55
    assert working_on(home) == []


def test_the_first_sight_needs_neither_the_stages_nor_a_stack() -> None:
    script = "import sys, advisor.cli, advisor.tui.program; print(*sys.modules)"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert "textual.app" in loaded
    assert (
        not {
            "advisor.pipeline",
            "advisor.machine",
            "advisor.report",
            "psutil",
            "scipy",
            "numpy",
            "torch",
            "jinja2",
        }
        & loaded
    )


@pytest.mark.parametrize(
    "end", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda end: end.name
)
def test_however_it_ends_during_a_run_nothing_is_left(
    end: signal.Signals, home: pathlib.Path
) -> None:
    with terminal("ask", "--tui", "--gpu", "cpu", "--budget", "60", home=home) as screen:
        screen.wait_for(b"Which model")
        time.sleep(0.5)
        screen.press(b"\x12")
        screen.wait_for(b"elapsed")
        limit = time.monotonic() + PATIENCE_SECONDS
        while not working_on(home) and time.monotonic() < limit:
            time.sleep(0.05)
        assert working_on(home)
        os.kill(screen.pid, end)
        status = screen.wait()
        if end == signal.SIGKILL:
            assert status == -end
        else:
            assert status == 128 + end
            assert LEAVES_SCREEN in screen.out
            assert LETS_MOUSE_GO in screen.out
    limit = time.monotonic() + PATIENCE_SECONDS
    while working_on(home) and time.monotonic() < limit:
        time.sleep(0.1)
    assert working_on(home) == []


def test_suspended_it_gives_the_terminal_back_and_the_run_goes_on(
    home: pathlib.Path, fake_probes: pathlib.Path, fake_rubric: pathlib.Path
) -> None:
    command = (
        sys.executable,
        str(FAKES / "show.py"),
        str(fake_probes),
        str(fake_rubric),
        str(home),
    )
    with terminal(
        "gpu=cpu", "workflows=quick", "batch_sizes=1", "budget=2", home=home, command=command
    ) as screen:
        screen.wait_for(b"Which model")
        screen.press(b"\x12")
        screen.wait_for(b"elapsed")
        since = len(screen.out)
        screen.press(b"\x1a")
        screen.wait_for(LEAVES_SCREEN, since)
        assert LETS_MOUSE_GO in screen.out[since:]
        assert os.WIFSTOPPED(os.waitpid(screen.pid, os.WUNTRACED)[1])
        (run,) = (home / "runs").iterdir()
        limit = time.monotonic() + PATIENCE_SECONDS
        while (
            b'"finished"}' not in (run / "events.jsonl").read_bytes() and time.monotonic() < limit
        ):
            time.sleep(0.05)
        since = len(screen.out)
        os.kill(screen.pid, signal.SIGCONT)
        screen.wait_for(ENTERS_SCREEN, since)
        screen.wait_for(b"Noise floor", since)
        screen.press(b"\x11")
        assert screen.wait() == 0


def test_no_colour_means_no_colour(recorded: Run, home: pathlib.Path) -> None:
    with terminal(
        "--replay", str(recorded.directory), "--speed", "1000", home=home, NO_COLOR="1"
    ) as screen:
        screen.wait_for(b"Noise floor")
        screen.press(b"w")
        screen.wait_for(b"> Performance")
        screen.press(b"l")
        screen.wait_for(b"with these weights")
        screen.press(b"\x11")
        assert screen.wait() == 0
    assert COLOURED.findall(screen.out) == []


@pytest.mark.parametrize(
    ("more", "line"),
    [
        pytest.param({"TERM": "xterm"}, "{command} </dev/null", id="no input"),
        pytest.param({"TERM": "xterm"}, "{command} | cat", id="a pipe"),
        pytest.param({"TERM": "xterm"}, "{command} 2>{file}", id="errors to a file"),
        pytest.param({"TERM": "dumb"}, "{command}", id="a dumb terminal"),
        pytest.param({"TERM": "xterm", "CI": "true"}, "{command}", id="continuous integration"),
    ],
)
def test_without_a_terminal_there_is_short_help_and_no_escape_code(
    more: dict[str, str], line: str, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "file"
    script = f"set -o pipefail; {line.format(command=COMMAND, file=file)}; echo left with $?"
    pid, fd = pty.fork()
    if pid == 0:
        environment = {name: value for name, value in os.environ.items() if name != "CI"}
        os.execve(
            "/bin/bash",
            ["bash", "-c", script],
            {**environment, "P3_ADVISOR_HOME": str(home), **more},
        )
    out = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(fd, 65536):
            out += chunk
    os.waitpid(pid, 0)
    os.close(fd)
    told = out + (file.read_bytes() if file.exists() else b"")
    assert b"left with 2" in out
    assert b"--json" in told
    assert b"\x1b" not in told


def test_the_plain_questions_lead_to_an_answer_or_say_what_does_not_fit(home: pathlib.Path) -> None:
    environment = {**os.environ, "P3_ADVISOR_HOME": str(home)}
    answers = "gone.onnx\n\ncpu\n\n\n"
    told = subprocess.run(
        [COMMAND, "--plain"],
        input=answers,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert "That does not fit: there is no file 'gone.onnx'" in told.stdout
    assert told.returncode == 2
    assert "\x1b" not in told.stdout + told.stderr
