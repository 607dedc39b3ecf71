"""Signals that end the program, also when a finalizer or an extension drops the exception."""

from __future__ import annotations

import json
import pathlib
import shutil
import signal
import sys

import builders
import pytest
import recorded_runs
from builders import replace
from forks import RunCli, run_command

from advisor.cli.interruption import InterruptedRunError
from advisor.domain.answer import Problem
from advisor.domain.run_events import Resumed
from advisor.execute import execution, runner
from advisor.report import answer_files
from advisor.report.answer_files import answer_of_run
from advisor.store.store import Store

PREAMBLE = """
import os, signal, time
from typing import Annotated
import msgspec
from advisor.cli.interruption import RETRY_SECONDS, InterruptedRunError, interruptions

def send_signal():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0)
"""

IN_A_FINALIZER = """
class Ending:
    def __del__(self):
        send_signal()

def drop():
    Ending()
"""

#: msgspec looks a type up in a dictionary and takes an exception in its hash for a missing key.
IN_A_LOOKUP = """
class Hashed:
    def __hash__(self):
        if is_interrupting:
            send_signal()
        return 0

is_interrupting = False
wanted = Annotated[int, Hashed()]

def drop():
    global is_interrupting
    is_interrupting = True
    assert msgspec.json.decode(b"1", type=wanted) == 1
"""


def interrupt(*_: object, **__: object) -> None:
    raise InterruptedRunError(signal.SIGTERM)


def copy_until(recorded: pathlib.Path, home: pathlib.Path, event: str) -> None:
    """Copy the recorded run as if it had stopped before the first such event."""
    copy = home / "runs" / recorded.name
    shutil.copytree(recorded, copy)
    lines = (copy / "events.jsonl").read_text().splitlines(keepends=True)
    end = next(i for i, line in enumerate(lines) if f'"event":"{event}"' in line)
    (copy / "events.jsonl").write_text("".join(lines[:end]))


@pytest.mark.parametrize(
    ("stopped_at", "status", "arm"),
    [("finished", 0, "quick"), ("race_opened", 128 + signal.SIGTERM, None)],
)
def test_an_interrupted_run_prints_what_is_known_as_json(
    stopped_at: str,
    status: int,
    arm: str | None,
    run_cli: RunCli,
    recorded: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy_until(recorded, tmp_path, stopped_at)
    monkeypatch.setattr(runner, "execute_controlled", interrupt)
    ended = run_cli("resume", recorded.name, "--json", home=tmp_path)
    assert ended.returncode == status
    answer = json.loads(ended.stdout)
    assert (answer["run_id"], answer["finished"]) == (recorded.name, False)
    assert (answer["recommendation"] or {}).get("arm") == arm
    assert bool(answer["problem"]) == (arm is None)
    assert f"p3-advisor resume {recorded.name}" in ended.stderr


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (("resume", "RUN"), "; what was measured is kept, resume with: p3-advisor resume RUN"),
        (("show", "RUN"), ""),
        (("history",), ""),
    ],
)
def test_without_an_answer_the_message_has_the_command_that_resumes_the_run(
    command: tuple[str, ...],
    kept: str,
    run_cli: RunCli,
    recorded: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy_until(recorded, tmp_path, "race_opened")
    for owner, name in (
        (runner, "execute_controlled"),
        (answer_files, "open_answer"),
        (Store, "history"),
    ):
        monkeypatch.setattr(owner, name, interrupt)
    ended = run_cli(*(word.replace("RUN", recorded.name) for word in command), home=tmp_path)
    assert ended.returncode == 128 + signal.SIGTERM
    assert ended.stderr == f"p3-advisor: stopped{kept.replace('RUN', recorded.name)}\n"


FINALLY = """
try:
    with interruptions():
        try:
            send_signal()
        finally:
            send_signal()
            time.sleep(4 * RETRY_SECONDS)
            print("cleaned up")
except InterruptedRunError:
    print("arrived")
"""
AFTERWARDS = """
try:
    with interruptions():
        send_signal()
except InterruptedRunError:
    pass
time.sleep(4 * RETRY_SECONDS)
print("over")
"""
IGNORED = """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with interruptions():
    os.kill(os.getpid(), signal.SIGHUP)
    print("went on", flush=True)
    try:
        send_signal()
    except InterruptedRunError as problem:
        print("arrived", problem.number)
"""
DROPPED = """
with interruptions():
    try:
        drop()
        print("dropped")
        time.sleep(60)
    except InterruptedRunError as problem:
        print("arrived", problem.number)
"""


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        pytest.param(
            IN_A_FINALIZER + DROPPED, "dropped\narrived 15\n", id="dropped by a finalizer"
        ),
        pytest.param(IN_A_LOOKUP + DROPPED, "dropped\narrived 15\n", id="dropped in a lookup"),
        pytest.param(FINALLY, "cleaned up\narrived\n", id="not disturbed by later signals"),
        pytest.param(AFTERWARDS, "over\n", id="not raised after the block"),
        pytest.param(IGNORED, "went on\narrived 15\n", id="a signal that is ignored stays so"),
    ],
)
def test_an_interruption_arrives_once_and_also_if_it_was_dropped(script: str, printed: str) -> None:
    assert run_command([sys.executable, "-c", PREAMBLE + script]).stdout == printed


def test_resume_names_the_run_that_it_takes_and_others_that_measure(
    run_cli: RunCli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    stopped, finished = (
        recorded_runs.make_run(store, finished=each).directory.name for each in (False, True)
    )
    monkeypatch.setattr(runner, "execute_controlled", lambda *_: iter(()))
    for name in ([], ["latest"]):
        first, *_ = run_cli("resume", *name, home=tmp_path).stderr.splitlines()
        assert first.endswith(f"resuming run {stopped}: the newest, {finished}, has finished")
    with store.find(stopped).writer():
        assert f"run {stopped} measures" in run_cli("resume", finished, home=tmp_path).stderr
    (event,) = builders.events(Resumed())
    late = replace(event, at=61.6)
    monkeypatch.setattr(runner, "execute_controlled", lambda *_: iter([late]))
    assert ": 62 s: resuming the run\n" in run_cli("resume", "latest", home=tmp_path).stderr


def test_a_run_on_a_busy_machine_can_be_measured_again_from_its_builds(
    run_cli: RunCli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded_runs.make_run(Store(tmp_path), finished=True)
    unfit = Problem(name="machine-unfit", what="busy", next_step="wait", exit_code=4)
    answer = replace(answer_of_run(run), recommendation=None, problem=unfit)
    monkeypatch.setattr(execution, "answer_from_state", lambda *_: answer)
    shutil.rmtree(run.scratch)
    assert "the builds of run" in run_cli("resume", run.directory.name, home=tmp_path).stderr


def test_an_interrupt_while_modules_are_imported_has_no_traceback(tmp_path: pathlib.Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    answer = run_command(
        [sys.executable, "-m", "advisor", "--version"], {"PYTHONPATH": str(tmp_path)}
    )
    assert (answer.returncode, answer.stderr) == (130, "")
