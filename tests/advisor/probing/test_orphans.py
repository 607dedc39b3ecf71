"""Nothing that a worker started outlives it, and no worker outlives the advisor, however either of them ends."""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import psutil
import pytest
import workers
from worker_scripts import DEADLINES, WAIT, Clock, hear, hear_end, start

from advisor.domain.outcome import Crashed
from advisor.domain.worker_events import Engaged, PhaseStarted, Ready
from advisor.probing import termination
from advisor.probing.supervisor import Supervisor
from probes import protocol

DRIVER = pathlib.Path(__file__).parents[2] / "fakes" / "supervise.py"
KILLED, COMPLETED, HANGS = (
    "os.kill(os.getpid(), signal.SIGKILL)",
    "answer('completed')",
    "time.sleep(3600)",
)
IN_ITS_GROUP = "subprocess.Popen(['sleep', '3600'])"
IN_ITS_OWN_SESSION = "subprocess.Popen(['sleep', '3600'], start_new_session=True)"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def supervisor(clock: Clock) -> Iterator[Supervisor]:
    with Supervisor(DEADLINES, clock=clock) as supervisor:
        yield supervisor


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> Iterator[dict[str, str]]:
    """Variables for a worker, by which everything that it leaves behind is found."""
    with workers.mark(str(tmp_path)) as environment:
        yield environment


def test_an_end_is_noticed_although_a_child_holds_the_doorbell(
    supervisor: Supervisor, tmp_path: pathlib.Path, environment: dict[str, str]
) -> None:
    worker = start(
        supervisor, tmp_path, "subprocess.Popen(['sleep', '3600'])\nos._exit(3)\n", environment
    )
    (crashed,) = hear_end(supervisor, worker)
    assert isinstance(crashed, Crashed)
    assert "status 3" in crashed.reason
    workers.wait_until(lambda: not workers.marked(str(tmp_path)))


@pytest.mark.parametrize(
    ("child", "end"),
    [
        pytest.param(IN_ITS_GROUP, HANGS, id="its group, timed out"),
        pytest.param(IN_ITS_GROUP, KILLED, id="its group, crashed"),
        pytest.param(IN_ITS_GROUP, COMPLETED, id="its group, completed"),
        pytest.param(IN_ITS_OWN_SESSION, HANGS, id="a session, timed out"),
        pytest.param(IN_ITS_OWN_SESSION, KILLED, id="a session, crashed"),
        pytest.param(IN_ITS_OWN_SESSION, COMPLETED, id="a session, completed"),
    ],
)
def test_nothing_that_a_worker_started_outlives_it(
    child: str,
    end: str,
    supervisor: Supervisor,
    clock: Clock,
    tmp_path: pathlib.Path,
    environment: dict[str, str],
) -> None:
    worker = start(supervisor, tmp_path, f"{child}\nenter('build')\n{WAIT}{end}\n", environment)
    hear(supervisor, PhaseStarted)
    assert len(workers.marked(str(tmp_path))) == 2
    supervisor.send(worker, "build")
    clock.now += 1000 if end == HANGS else 0
    hear_end(supervisor, worker)
    workers.wait_until(lambda: not workers.marked(str(tmp_path)), seconds=2.0)


#: Has one child in its own session and one in another; a title has been written over the variables
#: of both.
TITLED = """
for of_its_own in (False, True):
    child = subprocess.Popen(['sleep', '3600'], env={}, start_new_session=of_its_own)
    tell('engaged', share=1.0, proof=str(child.pid), facts={})
"""


def test_processes_that_gave_themselves_a_title_are_ended_with_their_worker(
    supervisor: Supervisor, tmp_path: pathlib.Path, environment: dict[str, str]
) -> None:
    worker = start(supervisor, tmp_path, f"{TITLED}{HANGS}\n", environment)
    titled: list[psutil.Process] = []
    while len(titled) < 2:
        titled += [
            psutil.Process(int(said.proof))
            for _, said in supervisor.listen()
            if isinstance(said, Engaged)
        ]
    assert {process.pid for process in titled} < {
        process.pid for process in termination.belonging(worker.directory)
    }
    supervisor.end(worker)
    workers.wait_until(lambda: not any(map(runs, titled)))


def runs(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)


def test_what_shares_a_session_with_the_advisor_is_no_worker_s(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen(["sleep", "3600"], env={protocol.MARK: str(tmp_path)}) as child:
        try:
            assert [process.pid for process in termination.belonging(tmp_path)] == [child.pid]
        finally:
            child.kill()


def test_leaving_the_supervisor_ends_every_worker(
    tmp_path: pathlib.Path, environment: dict[str, str]
) -> None:
    with Supervisor(DEADLINES) as supervisor:
        for name in ("one", "other"):
            place = tmp_path / name
            place.mkdir()
            start(
                supervisor,
                place,
                f"subprocess.Popen(['sleep', '3600'], start_new_session=True)\ntell('ready')\n{WAIT}",
                environment,
            )
            hear(supervisor, Ready)
        assert len(workers.marked(str(tmp_path))) == 4
    workers.wait_until(lambda: not workers.marked(str(tmp_path)))


def test_a_worker_may_be_ended_at_any_time_and_twice(
    supervisor: Supervisor, tmp_path: pathlib.Path
) -> None:
    worker = start(supervisor, tmp_path, "time.sleep(3600)\n")
    supervisor.end(worker)
    supervisor.end(worker)
    assert worker.popen.returncode == -signal.SIGKILL
    assert list(supervisor.listen(timeout=0.0)) == []


# What becomes of workers when the advisor is killed


@contextlib.contextmanager
def drive(
    script: pathlib.Path, place: pathlib.Path, requests: list[Any], **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run an advisor's process of its own that takes these requests through the worker `script`, one after the other."""
    (place / "environment.json").write_text(json.dumps({workers.MARK: str(place), **variables}))
    with subprocess.Popen(
        [sys.executable, str(DRIVER), str(script), str(place)], stdin=subprocess.PIPE
    ) as driver:
        assert driver.stdin is not None
        driver.stdin.write(msgspec.json.encode(requests) + b"\n")
        driver.stdin.close()
        try:
            yield driver
        finally:
            driver.kill()


def kill(driver: subprocess.Popen[bytes]) -> None:
    """Give it no chance to tidy up."""
    assert driver.poll() is None
    driver.send_signal(signal.SIGKILL)
    driver.wait()


@pytest.mark.parametrize("how", ["sleeps", "holds the lock"])
@pytest.mark.parametrize("phase", ["import", "build", "measure"])
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
    with drive(fake_probes / "worker.py", tmp_path, [reference, stuck]) as driver:
        workers.wait_until(reached.exists)
        names = sorted(process.name() for process in workers.marked(str(tmp_path)))
        assert len(names) == 4, (
            "the worker, its guard, a child in its group and one in a session of its own"
        )
        assert names[-2:] == ["sleep", "sleep"]
        kill(driver)
        workers.wait_until(lambda: not workers.marked(str(tmp_path)))


@pytest.mark.usefixtures("environment")
def test_an_advisor_that_is_killed_leaves_no_process_that_gave_itself_a_title(
    fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    reached = tmp_path / "reached"
    workflow = fake_probes / "workflows" / "stuck.py"
    reference = workers.make_request(workflow, tmp_path, role="reference")
    stuck = workers.make_request(
        workflow, tmp_path, options={"phase": "build", "how": "titled", "reached": str(reached)}
    )
    with drive(fake_probes / "worker.py", tmp_path, [reference, stuck]) as driver:
        workers.wait_until(reached.exists)
        titled = [
            each
            for each in psutil.Process(driver.pid).children(recursive=True)
            if each.name() == "sleep"
        ]
        assert len(titled) == 2
        kill(driver)
        workers.wait_until(lambda: not any(map(runs, titled)))


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
    with drive(fake_probes / "worker.py", tmp_path, [idle], PYTHONPATH=str(tmp_path)) as driver:
        workers.wait_until(reached.exists)
        assert len(workers.marked(str(tmp_path))) == 1
        kill(driver)
        go_on.touch()
        workers.wait_until(lambda: not workers.marked(str(tmp_path)))
    assert not (tmp_path / "control-0" / "response.json").exists()
