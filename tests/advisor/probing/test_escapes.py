"""Processes that detach themselves from a worker end with it, however it ends."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import typing
from collections.abc import Iterator

import psutil
import pytest
import workers
from sessions import expect_failure

from advisor.ask import rubric_files
from advisor.probing import supervisor as supervisor_module
from advisor.probing.supervisor import Supervisor
from advisor.probing.worker_process import Worker
from probes.wire.outcome import FailureStatus, Outcome, Phase

pytestmark = pytest.mark.slow

#: A workflow that starts processes without the mark, in sessions of their own; then it ends.
WORKFLOW = """
import os, pathlib, signal, subprocess, sys, time

PIDS = pathlib.Path({pids!r})

def record(pid):
    with PIDS.open("a") as file:
        file.write(f"{{pid}}\\n")

def daemonize():
    # The classic double fork, with an empty environment.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            record(os.getpid())
            os.execve("/bin/sleep", ["sleep", "3600"], {{}})
        os._exit(0)
    os.wait()

def versions():
    child = subprocess.Popen(["sleep", "3600"], env={{}}, start_new_session=True)
    record(child.pid)
    daemonize()
    while len(PIDS.read_text().split()) < 2:
        time.sleep(0.01)
    return {{}}

def settings(request):
    return {{}}

def open_subject(request):
    {end}
"""
ENDS: dict[str, tuple[str, FailureStatus | None]] = {
    "responds": ('raise ValueError("no model")', "model-refused"),
    "exits": ("os._exit(3)", "model-refused"),
    "is killed": ("os.kill(os.getpid(), signal.SIGKILL)", "crashed"),
    "crashes": ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed"),
    "stops its parent": (
        "os.kill(os.getppid(), signal.SIGSTOP); raise ValueError('no model')",
        "model-refused",
    ),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", None),
    "ignores SIGTERM": ("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)", None),
}


SIGNALS = {"is killed": "SIGKILL", "crashes": "SIGSEGV"}
DEADLINES: dict[Phase, float] = dict.fromkeys(typing.get_args(Phase), 60.0)


def start(supervisor: Supervisor, workflow: pathlib.Path) -> Worker:
    """Start the real worker with this workflow, and let it open its model."""
    worker = supervisor.start(
        workers.make_request(workflow, workflow.parent),
        workflow.parent / "control",
        process=0,
        interpreter=sys.executable,
        script=rubric_files.probes_directory() / "worker.py",
        environment={**os.environ},
        max_build_seconds=60.0,
    )
    assert isinstance(worker, Worker)
    supervisor.send(worker, "build")
    return worker


def outcome_of(supervisor: Supervisor, worker: Worker) -> Outcome:
    while worker.outcome is None:
        for _ in supervisor.poll(1.0):
            pass
    return worker.outcome


@pytest.fixture
def pids(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file with the ids of detached processes, which are killed after the test."""
    file = tmp_path / "pids"
    yield file
    for pid in file.read_text().split():
        if psutil.pid_exists(int(pid)):
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("end", ENDS)
def test_detached_processes_end_with_their_worker(
    end: str, pids: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "EXIT_GRACE_SECONDS", 0.5)
    code, expected = ENDS[end]
    workflow = tmp_path / "escaping.py"
    workflow.write_text(WORKFLOW.format(pids=str(pids), end=code))
    with Supervisor(DEADLINES) as supervisor:
        worker = start(supervisor, workflow)
        if expected is None:
            workers.wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
            supervisor.kill(worker)
        else:
            failure = expect_failure(outcome_of(supervisor, worker), expected)
            assert failure.signal == SIGNALS.get(end)
    detached = [int(pid) for pid in pids.read_text().split()]
    assert len(detached) == 2
    workers.wait_until(lambda: not any(map(workers.is_running, detached)), seconds=5.0)


def test_a_worker_ends_with_its_watchdog(tmp_path: pathlib.Path) -> None:
    workflow = tmp_path / "kills_its_parent.py"
    workflow.write_text(
        "import os, pathlib, signal, time\n"
        "def versions():\n"
        f"    pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "    os.kill(os.getppid(), signal.SIGKILL)\n"
        "    time.sleep(3600)\n"
    )
    with Supervisor(DEADLINES) as supervisor:
        outcome = outcome_of(supervisor, start(supervisor, workflow))
    failure = expect_failure(outcome, "crashed")
    assert failure.signal == "SIGKILL"
    assert not workers.is_running(int((tmp_path / "pid").read_text()))
