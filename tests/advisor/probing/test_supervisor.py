"""The supervisor reports every message and every end of a worker, and enforces its deadlines."""

from __future__ import annotations

import errno
import os
import pathlib
import resource
import signal
import time

import pytest
from sessions import expect_failure
from worker_scripts import DEADLINES, SECONDS, VISIT, WAIT, ScriptedWorkers

from advisor.domain.errors import NotWritableError
from advisor.probing import processes, worker_failures, worker_process
from advisor.probing import supervisor as supervisor_module
from advisor.probing.supervisor import Supervisor
from advisor.probing.worker_process import Worker
from probes import protocol
from probes.commands import Build, Command, Diagnose, Start, Stop, Sustain, TryNewShapes, Visit
from probes.events import Engagement, Event, PhaseStarted, Ready
from probes.outcome import Failure, Outcome, Phase
from probes.shape import Shape

# Messages


def test_events_come_in_order_before_the_response(scripts: ScriptedWorkers) -> None:
    source = """
enter_phase('open')
send_event('engagement', share=1.0, proof='counters', facts={})
send_event('ready')
respond()
"""
    worker = scripts.start(source, Build())
    assert scripts.messages_until_end(worker) == [
        PhaseStarted(phase="open", shape=None),
        Engagement(share=1.0, proof="counters", facts={}),
        Ready(),
        Outcome(),
    ]


def test_events_written_while_the_supervisor_reads_come_before_the_response(
    scripts: ScriptedWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = scripts.start(
        "send_event('ready')\nsys.stdin.readline()\nenter_phase('done')\nrespond()\n", Build()
    )
    assert scripts.next_message(Ready)
    read_events = Worker.read_events

    def read_slowly(worker: Worker) -> list[Event]:
        events = read_events(worker)
        scripts.supervisor.send(worker, Stop())
        worker.popen.wait()
        return events

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "read_events", read_slowly)
        early = list(scripts.supervisor._read_messages(worker))
    messages = [message for _, message in early] + scripts.messages_until_end(worker)
    assert messages == [PhaseStarted(phase="done", shape=None), Outcome()]


def test_an_incomplete_line_is_not_read(scripts: ScriptedWorkers) -> None:
    source = """
write_events('{"event": "ready"}\\n{"event": "pha')
sys.stdin.readline()
write_events('se_started", "phase": "done", "shape": {"batch_size": 1}}\\n')
respond()
"""
    worker = scripts.start(source, Build())
    assert scripts.next_message(Ready)
    assert list(scripts.supervisor.poll(timeout=0.0)) == []
    scripts.supervisor.send(worker, Stop())
    ended = [PhaseStarted(phase="done", shape=Shape(1)), Outcome()]
    assert scripts.messages_until_end(worker) == ended


def test_sending_a_command_to_a_worker_that_exited_is_no_error(scripts: ScriptedWorkers) -> None:
    worker = scripts.start("")
    worker.popen.wait()
    scripts.supervisor.send(worker, Build())
    expect_failure(scripts.next_message(Outcome), "crashed")


# Ends


def test_a_worker_that_used_its_processor_time_has_not_only_run_out_of_memory(
    scripts: ScriptedWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (60, 60))
    assert "ulimit -t" in scripts.failure_of("os.kill(os.getpid(), signal.SIGKILL)\n").reason


@pytest.mark.parametrize(
    ("source", "signal_name", "reason"),
    [
        (
            "os.kill(os.getpid(), signal.SIGSEGV)",
            "SIGSEGV",
            "its process was killed by SIGSEGV; its log ends: (empty log)",
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "SIGKILL",
            "SIGKILL (the kernel does this when memory runs out)",
        ),
        ("os._exit(0)", None, "its process exited with status 0 and no response"),
        (
            "log('undefined symbol: _ZN3c10\\n'); os._exit(127)",
            None,
            "status 127 and no response; its log ends: undefined symbol: _ZN3c10",
        ),
        (
            "write_events('this is no event\\n'); time.sleep(60)",
            None,
            "it wrote a message that cannot be read",
        ),
        ("respond('unknown'); time.sleep(60)", None, "it wrote a message that cannot be read"),
    ],
)
def test_a_worker_without_a_valid_response_has_crashed(
    scripts: ScriptedWorkers,
    source: str,
    signal_name: str | None,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor_module, "EXIT_GRACE_SECONDS", 0.1)
    (crashed,) = scripts.messages_until_end(scripts.start(source))
    failure = expect_failure(crashed, "crashed")
    assert reason in failure.reason
    assert (failure.signal, failure.phase) == (signal_name, "start")


def test_a_model_that_ends_its_worker_is_refused(scripts: ScriptedWorkers) -> None:
    worker = scripts.start("enter_phase('open'); os._exit(0)", Build())
    entered, last = scripts.messages_until_end(worker)
    assert entered == PhaseStarted(phase="open", shape=None), "just before the end"
    assert "os._exit" in (expect_failure(last, "model-refused").fix or "")


def test_the_response_is_the_outcome(scripts: ScriptedWorkers) -> None:
    worker = scripts.start(
        "respond('unsupported', phase='build', reason='no such operator', fix=None)"
    )
    assert scripts.messages_until_end(worker) == [
        Outcome(Failure("unsupported", phase="build", reason="no such operator"))
    ]
    assert worker.popen.returncode == 0
    assert worker.pid == worker.popen.pid, "of a worker that is gone"


@pytest.mark.parametrize("method", ["mkdir", "write_bytes", "open"])
def test_a_full_disk_is_a_user_error(
    scripts: ScriptedWorkers, method: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "script.py").touch()
    monkeypatch.setattr(pathlib.Path, method, refuse)
    monkeypatch.setattr(pathlib.Path, "write_text", lambda *_, **__: None)
    with pytest.raises(NotWritableError, match="No space left on device"):
        scripts.start("")


FRAME = 'File "/stack/compile.py", line 12 in lower'
FAULTHANDLER = f"""\
Fatal Python error: Segmentation fault

Thread 0x00007f1c (most recent call first):
  File "/usr/lib/python3/threading.py", line 324 in wait

Current thread 0x00007f1d (most recent call first):
  {FRAME}
  File "/probes/harness.py", line 130 in build_cell

Extension modules: numpy.core (total: 1)
"""

RAISED = "ValueError: Loaded weights leave no memory"
#: Log of an engine with a scheduler in a process of its own.
TRACEBACK = f"""[12:00] The scheduler hit an exception: Traceback (most recent call last):
  File "/stack/scheduler.py", line 498, in start
    raise ValueError(
{RAISED}
""".encode()

CAUSE, ABORTED = "what():  index out of bounds: 0 <= tmp2 < 500L", "Fatal Python error: Aborted"
#: Log of threads of compiled C++ code that throw: none of them has a frame of Python.
ABORT = f"""\
it went well so far
terminate called after throwing an instance of 'c10::Error'
terminate called recursively
  {CAUSE}
Exception raised from kernel at /tmp/main.cpp:29 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f1c in libc10.so)

{ABORTED}

Thread 0x00007f1c (most recent call first):
  File "/usr/lib/python3/threading.py", line 324 in wait

Extension modules: numpy.core, scipy.optimize._lsap (total: 2)
"""


def without(text: str, *starts: str) -> bytes:
    """Return the text without the lines that start like this."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.strip().startswith(starts)).encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ABORT.encode(), CAUSE),
        (
            ABORT.replace("\nThread", '  File "/a.py", line 1 in f\n' * 1000 + "\nThread").encode(),
            CAUSE,
        ),
        (without(ABORT, "what()"), "terminate called after throwing an instance of 'c10::Error'"),
        (without(ABORT, "what()", "terminate"), ABORTED),
        (
            without(ABORT, "what()", "terminate").replace(
                b"\nThread",
                b"\nCurrent thread 0x1 (most recent call first):\n<no Python frame>\nThread",
            ),
            ABORTED,
        ),
        (
            FAULTHANDLER.replace("Segmentation fault", "no thread state").encode(),
            "Fatal Python error: no thread state",
        ),
        (b"", worker_failures.EMPTY_LOG),
        (None, worker_failures.EMPTY_LOG),
        (b"Error: why\n\n   \n", "Error: why"),
        (FAULTHANDLER.encode(), FRAME),
        ((FAULTHANDLER.replace("/stack", "/first") + FAULTHANDLER).encode(), FRAME),
        (
            b"Current thread 0x00007f1d (most recent call first):",
            "Current thread 0x00007f1d (most recent call first):",
        ),
        (b"\xff\xfe\x00binary\x80", "\ufffd\ufffd\x00binary\ufffd"),
        (b"begin" + b"-" * 10_000 + b"end\n", "-" * 297 + "end"),
        (b"far too early\n" + b"\n" * worker_failures.LOG_TAIL_BYTES, worker_failures.EMPTY_LOG),
        (TRACEBACK, RAISED),
        (TRACEBACK + b"\n[12:00] the child failed\n[12:00] killing all\n", RAISED),
        (TRACEBACK + b"it went on\n" * 30 + b"the last of many\n", "the last of many"),
        (b"ValueError: without a traceback\nlast\n", "last"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_the_failure_reason_is_the_most_informative_line(
    text: bytes | None, expected: str, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "log"
    if text is not None:
        log.write_bytes(text)
    assert worker_failures.failure_reason(log) == expected


# Deadlines


#: The command to which a phase belongs; `Build` by default.
COMMANDS: dict[str, Command] = {
    "start": Start(),
    "import": Start(),
    "sustain": Sustain(Shape(1), 1),
    "diagnose": Diagnose(),
    "new-shapes": TryNewShapes(),
    "done": Stop(),
}


@pytest.mark.parametrize("phase", SECONDS)
def test_each_phase_has_its_own_deadline(scripts: ScriptedWorkers, phase: Phase) -> None:
    source = "" if phase == "start" else f"enter_phase({phase!r})\n"
    worker = scripts.start(
        f"log('last line')\n{source}"
        f"send_event('engagement', share=1.0, proof='', facts={{}})\n{WAIT}",
        COMMANDS.get(phase, Build()),
    )
    scripts.next_message(Engagement)
    started = scripts.clock.now
    scripts.clock.now = started + SECONDS[phase] - 0.001
    assert list(scripts.supervisor.poll(timeout=0.0)) == []
    scripts.clock.now = started + SECONDS[phase]
    ((timed_out, outcome),) = scripts.supervisor.poll()
    assert timed_out is worker
    failure = expect_failure(outcome, "timed-out")
    assert failure.phase == phase
    assert "last line" in failure.reason
    assert f"{SECONDS[phase]} s" in failure.reason
    assert (failure.fix is not None) == (phase in {"open", "build", "new-shapes"})
    assert worker.popen.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("is_waiting", "command", "phase"),
    [
        (True, Build(), "open"),
        (True, Visit(Shape(1), 1), "measure"),
        (True, Stop(), "done"),
        # It comes early, and the present phase keeps its deadline.
        (False, Build(), "start"),
    ],
)
def test_a_command_starts_the_deadline_of_its_phase(
    scripts: ScriptedWorkers, *, is_waiting: bool, command: Command, phase: Phase
) -> None:
    worker = scripts.start("time.sleep(3600)\n", is_waiting=is_waiting)
    scripts.clock.now += 5 if is_waiting else 0
    scripts.supervisor.send(worker, command)
    scripts.clock.now += SECONDS[phase] - 0.001
    assert list(scripts.supervisor.poll(timeout=0.0)) == []
    scripts.clock.now += 0.001
    ((_, outcome),) = scripts.supervisor.poll()
    assert expect_failure(outcome, "timed-out").phase == phase


@pytest.mark.parametrize(
    ("event", "command"),
    [
        ("send_event('imported', versions={}, settings={})", Start()),
        ("send_event('ready')", Build()),
        (f"send_event('visited', **{VISIT})", Visit(Shape(1), 1)),
    ],
    ids=["imported", "ready", "visited"],
)
def test_a_worker_that_waits_for_a_command_has_no_deadline(
    scripts: ScriptedWorkers, event: str, command: Command
) -> None:
    worker = scripts.start(f"{event}\n{WAIT}", command)
    assert len(list(scripts.supervisor.poll())) == 1
    scripts.clock.now += 1e9
    assert list(scripts.supervisor.poll(timeout=0.0)) == []
    assert worker.popen.poll() is None


def test_a_response_in_time_counts_when_it_is_read_late(scripts: ScriptedWorkers) -> None:
    worker = scripts.start("respond()\n")
    worker.popen.wait()
    scripts.clock.now += 1e9
    assert scripts.messages_until_end(worker) == [Outcome()]


def test_only_the_worker_beyond_its_deadline_is_killed(scripts: ScriptedWorkers) -> None:
    late = scripts.start("time.sleep(3600)\n", name="late")
    idle = scripts.start(f"send_event('ready')\n{WAIT}", Build(), name="idle")
    scripts.next_message(Ready)
    scripts.clock.now += 1000
    assert [worker for worker, _ in scripts.supervisor.poll()] == [late]
    assert idle.popen.poll() is None


def test_a_deadline_needs_no_message(tmp_path: pathlib.Path) -> None:
    with Supervisor({**DEADLINES, "start": 0.1}) as supervisor:
        scripts = ScriptedWorkers(supervisor, tmp_path)
        (outcome,) = scripts.messages_until_end(scripts.start("time.sleep(3600)\n"))
    expect_failure(outcome, "timed-out")


def test_a_deadline_may_be_months_away(tmp_path: pathlib.Path) -> None:
    with Supervisor({**DEADLINES, "import": 3e6}) as supervisor:
        scripts = ScriptedWorkers(supervisor, tmp_path)
        worker = scripts.start(
            "enter_phase('import')\ntime.sleep(0.2)\n"
            "send_event('engagement', share=1.0, proof='', facts={})"
        )
        scripts.next_message(Engagement)
        assert worker.deadline > time.monotonic() + 2e6


@pytest.mark.parametrize(
    "mischief",
    [
        "os.mkfifo(file)",
        "os.mkdir(file)",
        "os.symlink('/dev/zero', file)",
        "open(file, 'w').truncate(6 << 30)",
        "open(file, 'w').write('x' * (5 << 20) + '\\n')",
    ],
    ids=["fifo", "directory", "link", "sparse", "long line"],
)
@pytest.mark.parametrize("name", ["events.jsonl", "response.json"])
def test_a_file_of_another_kind_or_size_is_the_failure_of_its_worker(
    scripts: ScriptedWorkers, name: str, mischief: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "EXIT_GRACE_SECONDS", 0.1)
    log = "os.unlink(directory / 'log'); os.mkfifo(directory / 'log')"
    source = f"file = directory / {name!r}\n{log}\n{mischief}\nnotify()\ntime.sleep(3600)\n"
    scripts.failure_of(source)


def test_more_events_than_a_run_may_have_are_the_failure_of_their_worker(
    scripts: ScriptedWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "MAX_RUN_BYTES", 5000)
    source = "while True:\n    send_event('engagement', share=1.0, proof='x' * 1000, facts={})\n"
    messages = scripts.messages_until_end(scripts.start(source))
    expect_failure(messages[-1], "crashed")
    assert len(messages) < 10


@pytest.mark.parametrize(
    "event",
    [
        "send_event('imported', versions={}, settings={})",
        "send_event('prepared')",
        f"send_event('visited', **{VISIT})",
        "enter_phase('import')",
        "enter_phase('done')",
        "send_event('phase_started', phase='queued', shape=None)",
        "while True: enter_phase('build')",
        "send_event('ready'); send_event('ready')",
    ],
)
def test_an_event_that_does_not_belong_to_the_command_is_the_failure_of_its_worker(
    scripts: ScriptedWorkers, event: str
) -> None:
    scripts.failure_of(f"{event}\ntime.sleep(3600)\n", Build())


def test_a_link_that_a_worker_puts_in_place_of_a_file_is_not_followed(
    scripts: ScriptedWorkers, tmp_path: pathlib.Path
) -> None:
    worker = scripts.start("time.sleep(60)\n")
    for name in (protocol.SUSPENDED, processes.SKIPPED_FILE):
        (worker.directory / name).symlink_to(tmp_path / "elsewhere")
    worker.suspend()
    worker.go_on()
    processes.skip(worker.directory)
    assert not (tmp_path / "elsewhere").exists()
