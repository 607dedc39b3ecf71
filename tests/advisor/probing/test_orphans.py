"""No process outlives its worker, and no worker outlives the advisor, however they end."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import psutil
import pytest
import workers
from sessions import expect_failure
from worker_scripts import DEADLINES, WAIT, ScriptedWorkers

from advisor.ask import catalogue_files
from advisor.probing import processes
from advisor.probing import supervisor as supervisor_module
from advisor.probing.supervisor import Supervisor
from advisor.probing.worker_process import Worker
from probes import protocol
from probes.commands import Build
from probes.events import PhaseStarted, Ready
from probes.outcome import FailureStatus, Outcome, Phase

pytestmark = pytest.mark.slow

DRIVER = pathlib.Path(__file__).parents[2] / "fakes" / "supervise.py"
KILLED, COMPLETED, HANGS = ("os.kill(os.getpid(), signal.SIGKILL)", "respond()", "time.sleep(3600)")
IN_ITS_GROUP = "subprocess.Popen(['sleep', '3600'])"
IN_ITS_OWN_SESSION = "subprocess.Popen(['sleep', '3600'], start_new_session=True)"


def wait_for_marked(folder: pathlib.Path, count: int) -> list[psutil.Process]:
    """Return the processes with the mark of a test as soon as there are `count` of them.

    A child has the mark only after it has replaced its program. Its parent may go on before the
    kernel shows the new environment: in 7 of 3,000 trials the first reading lacked it.
    """
    workers.wait_until(lambda: len(workers.find_marked(str(folder))) == count)
    found = workers.find_marked(str(folder))
    assert len(found) == count
    return found


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> Iterator[dict[str, str]]:
    """Environment variables of a worker that mark all its descendants."""
    with workers.mark_processes(str(tmp_path)) as environment:
        yield environment


@pytest.mark.parametrize("end", [HANGS, KILLED, COMPLETED])
def test_nothing_that_a_worker_started_outlives_it(
    scripts: ScriptedWorkers, end: str, tmp_path: pathlib.Path, environment: dict[str, str]
) -> None:
    children = f"{IN_ITS_GROUP}\n{IN_ITS_OWN_SESSION}\n"
    worker = scripts.start(
        f"{children}enter_phase('import')\n{WAIT}{end}\n", environment=environment
    )
    scripts.next_message(PhaseStarted)
    wait_for_marked(tmp_path, 3)
    scripts.supervisor.send(worker, Build())
    scripts.clock.now += 1000 if end == HANGS else 0
    scripts.messages_until_end(worker)
    workers.wait_until(lambda: not workers.find_marked(str(tmp_path)))


def test_sharing_the_session_of_the_advisor_makes_no_worker_process(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen(["sleep", "3600"], env={protocol.MARK_VARIABLE: str(tmp_path)}) as child:
        try:
            assert [process.pid for process in processes.process_tree(tmp_path)] == [child.pid]
        finally:
            child.kill()


def test_leaving_the_supervisor_kills_every_worker(
    tmp_path: pathlib.Path, environment: dict[str, str]
) -> None:
    ready = f"{IN_ITS_OWN_SESSION}\nsend_event('ready')\n{WAIT}"
    with Supervisor(DEADLINES) as supervisor:
        scripts = ScriptedWorkers(supervisor, tmp_path)
        for name in ("one", "other"):
            scripts.start(ready, Build(), name=name, environment=environment)
            scripts.next_message(Ready)
        wait_for_marked(tmp_path, 4)
    workers.wait_until(lambda: not workers.find_marked(str(tmp_path)))


def test_a_worker_may_be_killed_twice(scripts: ScriptedWorkers) -> None:
    worker = scripts.start("time.sleep(3600)\n")
    scripts.supervisor.kill(worker)
    scripts.supervisor.kill(worker)
    assert worker.popen.returncode == -signal.SIGKILL
    assert list(scripts.supervisor.poll(timeout=0.0)) == []


# When the advisor is killed


@contextlib.contextmanager
def drive(
    script: pathlib.Path, folder: pathlib.Path, requests: list[Any], **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run an advisor in a process of its own, which runs these requests one after the other."""
    (folder / "environment.json").write_text(
        json.dumps({workers.MARK_VARIABLE: str(folder), **variables})
    )
    with subprocess.Popen(
        [sys.executable, str(DRIVER), str(script), str(folder)], stdin=subprocess.PIPE
    ) as driver:
        assert driver.stdin is not None
        driver.stdin.write(msgspec.json.encode(requests) + b"\n")
        driver.stdin.close()
        try:
            yield driver
        finally:
            driver.kill()


def kill(driver: subprocess.Popen[bytes]) -> None:
    """Kill the advisor without a chance to clean up."""
    assert driver.poll() is None
    driver.send_signal(signal.SIGKILL)
    driver.wait()


@pytest.mark.parametrize("how", ["sleeps", "holds the lock"])
@pytest.mark.parametrize("phase", ["import", "measure"])
@pytest.mark.usefixtures("environment")
def test_an_advisor_that_is_killed_leaves_no_process(
    phase: str, how: str, fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    reached = tmp_path / "reached"
    workflow = fake_probes / "workflows" / "stuck.py"
    reference = workers.make_request(workflow, tmp_path, role="reference")
    stuck = workers.make_request(
        workflow, tmp_path, options={"phase": phase, "how": how, "reached": str(reached)}
    )
    with drive(fake_probes / "runtime/worker.py", tmp_path, [reference, stuck]) as driver:
        workers.wait_until(reached.exists)
        # The worker, its watchdog, a child in its group and one in a session of its own.
        names = sorted(process.name() for process in wait_for_marked(tmp_path, 4))
        assert names[-2:] == ["sleep", "sleep"]
        kill(driver)
        workers.wait_until(lambda: not workers.find_marked(str(tmp_path)))


@pytest.mark.usefixtures("environment")
def test_an_advisor_that_is_killed_while_a_worker_starts_leaves_no_process(
    fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    reached, go_on = tmp_path / "reached", tmp_path / "go-on"
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib, time\n"
        f"pathlib.Path({str(reached)!r}).touch()\n"
        f"while not pathlib.Path({str(go_on)!r}).exists():\n"
        "    time.sleep(0.005)\n"
    )
    idle = workers.make_request(fake_probes / "workflows" / "quick.py", tmp_path)
    with drive(
        fake_probes / "runtime/worker.py", tmp_path, [idle], PYTHONPATH=str(tmp_path)
    ) as driver:
        workers.wait_until(reached.exists)
        wait_for_marked(tmp_path, 1)
        kill(driver)
        go_on.touch()
        workers.wait_until(lambda: not workers.find_marked(str(tmp_path)))
    assert not (tmp_path / "control-0" / "response.json").exists()


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
LONG_DEADLINES: dict[Phase, float] = dict.fromkeys(typing.get_args(Phase), 60.0)


def start_workflow(supervisor: Supervisor, workflow: pathlib.Path) -> Worker:
    """Start the real worker with this workflow, and let it open its model."""
    worker = supervisor.start(
        workers.make_request(workflow, workflow.parent),
        workflow.parent / "control",
        process=0,
        interpreter=sys.executable,
        script=catalogue_files.probes_directory() / "runtime/worker.py",
        environment={**os.environ},
        max_build_seconds=60.0,
    )
    assert isinstance(worker, Worker)
    supervisor.send(worker, Build())
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
    with Supervisor(LONG_DEADLINES) as supervisor:
        worker = start_workflow(supervisor, workflow)
        if expected is None:
            workers.wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
            supervisor.kill(worker)
        else:
            failure = expect_failure(outcome_of(supervisor, worker), expected)
            assert failure.signal == SIGNALS.get(end)
    detached = [int(pid) for pid in pids.read_text().split()]
    assert len(detached) == 2
    workers.wait_until(lambda: not any(map(workers.is_running, detached)))


def test_a_worker_ends_with_its_watchdog(tmp_path: pathlib.Path) -> None:
    workflow = tmp_path / "kills_its_parent.py"
    workflow.write_text(
        "import os, pathlib, signal, time\n"
        "def versions():\n"
        f"    pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "    os.kill(os.getppid(), signal.SIGKILL)\n"
        "    time.sleep(3600)\n"
    )
    with Supervisor(LONG_DEADLINES) as supervisor:
        outcome = outcome_of(supervisor, start_workflow(supervisor, workflow))
    assert expect_failure(outcome, "crashed").signal == "SIGKILL"
    assert not workers.is_running(int((tmp_path / "pid").read_text()))
