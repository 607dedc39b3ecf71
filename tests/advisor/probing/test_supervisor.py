"""Workers are heard and explained whatever they do, and none is waited for too long."""

from __future__ import annotations

import errno
import os
import pathlib
import signal
import time
from collections.abc import Iterator

import msgspec
import pytest
import workers
from worker_scripts import DEADLINES, SECONDS, WAIT, Clock, hear, hear_end, start

from advisor.domain.outcome import Completed, Crashed, TimedOut, Unsupported
from advisor.domain.worker_events import Engaged, PhaseStarted, Ready, WorkerEvent
from advisor.errors import NotWritableError
from advisor.probing import supervisor as launch
from advisor.probing import termination
from advisor.probing.supervisor import Supervisor, Worker

#: Most processor seconds that somebody who only waits for a second may use.
IDLE_CPU_SECONDS = 0.05
#: Who waits by asking again and again does so in every second; what this process still finishes
#: after a start, in one.
IDLE_WINDOWS = 3


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def supervisor(clock: Clock) -> Iterator[Supervisor]:
    with Supervisor(DEADLINES, clock=clock) as supervisor:
        yield supervisor


# What it hears


def test_events_come_in_order_and_then_the_answer(
    supervisor: Supervisor, tmp_path: pathlib.Path
) -> None:
    source = "enter('import')\ntell('engaged', share=1.0, proof='it says so', facts={})\ntell('ready')\nanswer('completed')\n"
    worker = start(supervisor, tmp_path, source)
    assert hear_end(supervisor, worker) == [
        PhaseStarted(phase="import", batch_size=None),
        Engaged(share=1.0, proof="it says so", facts={}),
        Ready(),
        Completed(),
    ]


def test_what_is_said_while_the_advisor_reads_is_heard_before_the_answer(
    supervisor: Supervisor, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start(
        supervisor,
        tmp_path,
        "tell('ready')\nsys.stdin.readline()\nenter('done')\nanswer('completed')\n",
    )
    assert hear(supervisor, Ready)
    read_events = supervisor._read_events

    def read_and_dally(worker: Worker) -> list[WorkerEvent]:
        events = read_events(worker)
        supervisor.send(worker, "stop")
        worker.popen.wait()
        return events

    with monkeypatch.context() as patched:
        patched.setattr(supervisor, "_read_events", read_and_dally)
        early = list(supervisor._hear(worker))
    assert [message for _, message in early] + hear_end(supervisor, worker) == [
        PhaseStarted(phase="done", batch_size=None),
        Completed(),
    ]


def test_a_line_that_is_half_written_is_not_read(
    supervisor: Supervisor, tmp_path: pathlib.Path
) -> None:
    source = """
say('{"event": "ready"}\\n{"event": "pha')
sys.stdin.readline()
say('se", "phase": "done", "batch_size": 1}\\n')
answer("completed")
"""
    worker = start(supervisor, tmp_path, source)
    assert hear(supervisor, Ready)
    assert list(supervisor.listen(timeout=0.0)) == []
    supervisor.send(worker, "stop")
    assert hear_end(supervisor, worker) == [PhaseStarted(phase="done", batch_size=1), Completed()]


def test_what_was_said_just_before_a_crash_is_heard(
    supervisor: Supervisor, tmp_path: pathlib.Path
) -> None:
    worker = start(supervisor, tmp_path, "enter('build')\nos.kill(os.getpid(), signal.SIGKILL)\n")
    entered, crashed = hear_end(supervisor, worker)
    assert entered == PhaseStarted(phase="build", batch_size=None)
    assert isinstance(crashed, Crashed)
    assert crashed.phase == "build"


def test_tokens_arrive_as_lines(supervisor: Supervisor, tmp_path: pathlib.Path) -> None:
    source = "for line in sys.stdin:\n    tell('engaged', share=1.0, proof=repr(line), facts={})\n"
    worker = start(supervisor, tmp_path, source)
    for token in ("build", "visit 16 3", "stop"):
        supervisor.send(worker, token)
        assert hear(supervisor, Engaged).proof == repr(f"{token}\n")


def test_a_token_for_a_worker_that_is_gone_is_no_error(
    supervisor: Supervisor, tmp_path: pathlib.Path
) -> None:
    worker = start(supervisor, tmp_path, "")
    worker.popen.wait()
    supervisor.send(worker, "build")
    assert isinstance(hear(supervisor, Crashed), Crashed)


# How it explains an end


@pytest.mark.parametrize(
    ("source", "signal_name", "words"),
    [
        (
            "os.kill(os.getpid(), signal.SIGSEGV)",
            "SIGSEGV",
            "its process was ended by SIGSEGV; its log ends: nothing",
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "SIGKILL",
            "SIGKILL (the kernel does that when memory is short)",
        ),
        ("os.abort()", "SIGABRT", "ended by SIGABRT"),
        ("os._exit(0)", None, "its process left with status 0 and no answer"),
        (
            "log('undefined symbol: _ZN3c10\\n'); os._exit(127)",
            None,
            "status 127 and no answer; its log ends: undefined symbol: _ZN3c10",
        ),
        ("say('this is no event\\n'); time.sleep(60)", None, "it wrote what cannot be read"),
        ("tell('nobody-knows-it'); time.sleep(60)", None, "it wrote what cannot be read"),
        ("answer('splendid'); time.sleep(60)", None, "it wrote what cannot be read"),
        (
            "answer('unsupported', phase='build'); time.sleep(60)",
            None,
            "it wrote what cannot be read",
        ),
    ],
)
def test_a_worker_without_a_proper_answer_has_crashed(
    source: str,
    signal_name: str | None,
    words: str,
    supervisor: Supervisor,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launch, "LEAVING_SECONDS", 0.1)
    worker = start(supervisor, tmp_path, source)
    (crashed,) = hear_end(supervisor, worker)
    assert isinstance(crashed, Crashed)
    assert words in crashed.reason
    assert (crashed.signal, crashed.phase) == (signal_name, "start")


def test_an_answer_is_taken_as_it_is(supervisor: Supervisor, tmp_path: pathlib.Path) -> None:
    worker = start(
        supervisor,
        tmp_path,
        "answer('unsupported', phase='build', reason='no such operator', fix=None)",
    )
    assert hear_end(supervisor, worker) == [Unsupported(phase="build", reason="no such operator")]
    assert worker.popen.returncode == 0


def test_an_interpreter_that_is_gone_is_the_end_of_its_arm(
    supervisor: Supervisor, tmp_path: pathlib.Path
) -> None:
    ended = supervisor.start(
        workers.make_request(tmp_path / "workflow.py", tmp_path),
        tmp_path / "control",
        process=0,
        interpreter=str(tmp_path / "gone"),
        script=tmp_path / "script.py",
        environment={},
        build_seconds=40,
    )
    assert isinstance(ended, Crashed)
    assert (ended.phase, ended.reason) == (
        "start",
        f"{tmp_path / 'gone'} cannot be started: No such file or directory",
    )
    assert ended.fix
    assert list(supervisor.listen(timeout=0.0)) == []


@pytest.mark.parametrize("full", ["mkdir", "write_bytes", "open"])
def test_a_full_disk_is_the_users_to_put_right(
    full: str, supervisor: Supervisor, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "script.py").touch()
    monkeypatch.setattr(pathlib.Path, full, refuse)
    monkeypatch.setattr(pathlib.Path, "write_text", lambda *_, **__: None)
    with pytest.raises(NotWritableError, match="No space left on device"):
        start(supervisor, tmp_path, "")


FAULTHANDLER = """\
Fatal Python error: Segmentation fault

Thread 0x00007f1c (most recent call first):
  File "/usr/lib/python3/threading.py", line 324 in wait

Current thread 0x00007f1d (most recent call first):
  File "/stack/compile.py", line 12 in lower
  File "/probes/harness.py", line 130 in build_cell

Extension modules: numpy.core (total: 1)
"""


#: What an engine says whose scheduler is a process of its own.
TRACEBACK = b"""[12:00] The scheduler hit an exception: Traceback (most recent call last):
  File "/stack/scheduler.py", line 498, in start
    raise ValueError(
ValueError: Loaded weights leave no memory
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", "nothing"),
        (b"\n  \n\t\n", "nothing"),
        (b"first\nlast\n", "last"),
        (b"no line break", "no line break"),
        (b"Error: why\n\n   \n", "Error: why"),
        (FAULTHANDLER.encode(), 'File "/stack/compile.py", line 12 in lower'),
        (
            FAULTHANDLER.encode() + b"noise of another process\n",
            'File "/stack/compile.py", line 12 in lower',
        ),
        (FAULTHANDLER.encode() * 2, 'File "/stack/compile.py", line 12 in lower'),
        (
            b"Current thread 0x00007f1d (most recent call first):",
            "Current thread 0x00007f1d (most recent call first):",
        ),
        (b"\xff\xfe\x00binary\x80", "\ufffd\ufffd\x00binary\ufffd"),
        (bytes(range(128, 256)) * 1000, "\ufffd" * 300),
        (b"begin" + b"-" * 10_000 + b"end\n", "-" * 297 + "end"),
        (b"cut off " + b"\n" * 20_000 + b"seen\n", "seen"),
        (b"far too early\n" + b"\n" * 20_000, "nothing"),
        (TRACEBACK, "ValueError: Loaded weights leave no memory"),
        (
            TRACEBACK + b"\n[12:00] the child failed\n[12:00] killing all\n",
            "ValueError: Loaded weights leave no memory",
        ),
        (TRACEBACK + b"it went on\n" * 30 + b"the last of many\n", "the last of many"),
        (b"ValueError: of which no traceback tells\nlast\n", "last"),
    ],
    ids=repr,
)
def test_the_last_words_of_a_log_are_those_that_say_most(
    text: bytes, expected: str, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "log"
    log.write_bytes(text)
    assert termination.failure_reason(log) == expected


def test_a_log_that_is_not_there_says_nothing(tmp_path: pathlib.Path) -> None:
    assert termination.failure_reason(tmp_path / "log") == "nothing"


def test_a_real_crash_is_traced_to_the_python_line_that_called_it(
    supervisor: Supervisor, tmp_path: pathlib.Path
) -> None:
    source = "import ctypes, faulthandler\nfaulthandler.enable()\ndef compile_it():\n    ctypes.PyDLL(None).abort()\ncompile_it()\n"
    worker = start(supervisor, tmp_path, source)
    (crashed,) = hear_end(supervisor, worker)
    assert isinstance(crashed, Crashed)
    assert "ended by SIGABRT" in crashed.reason
    assert "in compile_it" in crashed.reason


# How long it waits


@pytest.mark.parametrize("phase", SECONDS)
def test_each_phase_has_its_own_deadline(
    phase: str, supervisor: Supervisor, clock: Clock, tmp_path: pathlib.Path
) -> None:
    source = "" if phase == "start" else f"enter({phase!r})\n"
    worker = start(
        supervisor,
        tmp_path,
        f"log('words')\n{source}tell('engaged', share=1.0, proof='', facts={{}})\n{WAIT}",
    )
    hear(supervisor, Engaged)
    begun = clock.now
    clock.now = begun + SECONDS[phase] - 0.001
    assert list(supervisor.listen(timeout=0.0)) == []
    clock.now = begun + SECONDS[phase]
    ((timed_out, outcome),) = supervisor.listen()
    assert timed_out is worker
    assert isinstance(outcome, TimedOut)
    assert outcome.phase == phase
    assert outcome.reason.endswith("its log ends: words")
    assert (outcome.fix is not None) == (phase in {"build", "flex"})
    assert worker.popen.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("token", "phase"), [("build", "load"), ("visit 1 1", "measure"), ("stop", "done")]
)
def test_a_token_starts_the_clock_of_what_it_asks_for(
    token: str, phase: str, supervisor: Supervisor, clock: Clock, tmp_path: pathlib.Path
) -> None:
    worker = start(supervisor, tmp_path, "time.sleep(3600)\n")
    clock.now += 5
    supervisor.send(worker, token)
    clock.now += SECONDS[phase] - 0.001
    assert list(supervisor.listen(timeout=0.0)) == []
    clock.now += 0.001
    ((_, outcome),) = supervisor.listen()
    assert isinstance(outcome, TimedOut)
    assert outcome.phase == phase


@pytest.mark.parametrize(
    "said",
    [
        "tell('imported', versions={}, settings={}, seconds=0.0)",
        "tell('ready')",
        "tell('visited', batch_size=1, round=1, seconds=[0.1], lead_calls=1, cpu_seconds=0.1)",
    ],
    ids=["imported", "ready", "visited"],
)
def test_a_worker_that_waits_for_a_token_may_wait_for_ever(
    said: str, supervisor: Supervisor, clock: Clock, tmp_path: pathlib.Path
) -> None:
    worker = start(supervisor, tmp_path, f"{said}\n{WAIT}")
    assert len(list(supervisor.listen())) == 1
    clock.now += 1e9
    assert list(supervisor.listen(timeout=0.0)) == []
    assert worker.popen.poll() is None


def test_a_deadline_comes_by_itself(tmp_path: pathlib.Path) -> None:
    with Supervisor(msgspec.structs.replace(DEADLINES, start=0.1)) as supervisor:
        worker = start(supervisor, tmp_path, "time.sleep(3600)\n")
        (outcome,) = hear_end(supervisor, worker)
    assert isinstance(outcome, TimedOut)


def test_a_deadline_that_is_months_away_is_waited_for(tmp_path: pathlib.Path) -> None:
    with Supervisor(msgspec.structs.replace(DEADLINES, import_=3e6)) as supervisor:
        worker = start(supervisor, tmp_path, "enter('import')\ntime.sleep(0.2)\ntell('ready')\n")
        assert isinstance(hear(supervisor, Ready), Ready)
        assert worker.deadline > time.monotonic() + 2e6


def test_news_that_came_in_time_count_although_they_are_read_late(
    supervisor: Supervisor, clock: Clock, tmp_path: pathlib.Path
) -> None:
    worker = start(supervisor, tmp_path, "answer('completed')\n")
    worker.popen.wait()
    clock.now += 1e9
    assert hear_end(supervisor, worker) == [Completed()]


def test_one_worker_that_is_late_ends_alone(
    supervisor: Supervisor, clock: Clock, tmp_path: pathlib.Path
) -> None:
    places = [tmp_path / name for name in ("late", "idle")]
    for place in places:
        place.mkdir()
    late = start(supervisor, places[0], "time.sleep(3600)\n")
    idle = start(supervisor, places[1], f"tell('ready')\n{WAIT}")
    hear(supervisor, Ready)
    clock.now += 1000
    assert [worker for worker, _ in supervisor.listen()] == [late]
    assert idle.popen.poll() is None


def test_waiting_takes_no_processor_time(supervisor: Supervisor, tmp_path: pathlib.Path) -> None:
    worker = start(supervisor, tmp_path, f"tell('ready')\n{WAIT}")
    hear(supervisor, Ready)
    windows = []
    for _ in range(IDLE_WINDOWS):
        before = time.process_time()
        assert list(supervisor.listen(timeout=1.0)) == []
        windows.append(time.process_time() - before)
    assert min(windows) < IDLE_CPU_SECONDS, windows
    assert worker.popen.poll() is None
