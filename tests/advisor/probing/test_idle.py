"""A process that was just timed is waited for until it rests; real processes."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from advisor.probing import idle

#: Works in a second thread, as thread pools spin, then says that it has ended.
SPINS = """
import pathlib, sys, threading, time

def spin():
    until = time.thread_time() + float(sys.argv[2])
    while time.thread_time() < until:
        pass
    pathlib.Path(sys.argv[1], "rests").touch()

threading.Thread(target=spin).start()
pathlib.Path(sys.argv[1], "spins").touch()
time.sleep(3600)
"""


@pytest.fixture
def spinning(
    tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", SPINS, str(tmp_path), str(request.param)]
    ) as process:
        while not (tmp_path / "spins").exists():
            assert process.poll() is None
        yield process
        process.kill()


@pytest.mark.parametrize("spinning", [0.3], indirect=True)
def test_threads_that_spin_for_a_while_are_waited_for(
    spinning: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    idle.wait_until_at_rest(spinning.pid, longest_seconds=60)
    assert (tmp_path / "rests").exists()


@pytest.mark.parametrize("spinning", [3600], indirect=True)
def test_a_process_that_never_rests_is_not_waited_for_for_ever(
    spinning: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    idle.wait_until_at_rest(spinning.pid, longest_seconds=0.05)
    assert not (tmp_path / "rests").exists()


@pytest.mark.parametrize("spinning", [3600], indirect=True)
def test_a_process_that_has_ended_rests(spinning: subprocess.Popen[bytes]) -> None:
    spinning.kill()
    spinning.wait()
    idle.wait_until_at_rest(spinning.pid, longest_seconds=60)
