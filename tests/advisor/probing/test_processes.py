"""Waiting for a timed process to become idle, with real processes."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from advisor.probing import processes

#: Spins in a second thread, as thread pools do, for a given CPU time; then writes `idle`.
SPINNING_SCRIPT = """
import pathlib, sys, threading, time

def spin():
    until = time.thread_time() + float(sys.argv[2])
    while time.thread_time() < until:
        pass
    pathlib.Path(sys.argv[1], "idle").touch()

threading.Thread(target=spin).start()
pathlib.Path(sys.argv[1], "spinning").touch()
time.sleep(3600)
"""


@pytest.fixture
def spinning(
    tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", SPINNING_SCRIPT, str(tmp_path), str(request.param)]
    ) as process:
        while not (tmp_path / "spinning").exists():
            assert process.poll() is None
        yield process
        process.kill()


@pytest.mark.parametrize("spinning", [0.3], indirect=True)
def test_spinning_threads_are_waited_for(
    spinning: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    processes.wait_until_idle(spinning.pid, max_seconds=60)
    assert (tmp_path / "idle").exists()


@pytest.mark.parametrize("spinning", [3600], indirect=True)
def test_waiting_for_a_process_that_never_becomes_idle_ends(
    spinning: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    processes.wait_until_idle(spinning.pid, max_seconds=0.05)
    assert not (tmp_path / "idle").exists()


@pytest.mark.parametrize("spinning", [3600], indirect=True)
def test_a_process_that_has_ended_is_not_waited_for(spinning: subprocess.Popen[bytes]) -> None:
    spinning.kill()
    spinning.wait()
    started = time.monotonic()
    processes.wait_until_idle(spinning.pid, max_seconds=60)
    assert time.monotonic() - started < 30
