"""Signals that ask for an end, in processes of their own, where extensions and finalizers drop what is raised; and what is said of it."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from advisor.cli.interruption import InterruptedRunError
from advisor.pipeline import decision, execution
from advisor.store import Store

Advise = Callable[..., subprocess.CompletedProcess[str]]

BEGINNING = """
import os, signal, time
from typing import Annotated
import msgspec
from advisor.cli.interruption import AGAIN_SECONDS, InterruptedRunError, Interruptions

def ask_to_end():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0)
"""

IN_A_FINALIZER = """
class Ending:
    def __del__(self):
        ask_to_end()

def drop():
    Ending()
"""

#: msgspec looks a type up in a dictionary, and takes what its hash raises for "not there".
IN_A_LOOKUP = """
class Looked:
    def __hash__(self):
        if looking:
            ask_to_end()
        return 0

looking = False
wanted = Annotated[int, Looked()]

def drop():
    global looking
    looking = True
    assert msgspec.json.decode(b"1", type=wanted) == 1
"""


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (("resume", "RUN"), "; what was measured is kept: p3-advisor resume RUN"),
        (("show", "RUN"), ""),
        (("history",), ""),
    ],
)
def test_what_goes_on_with_a_run_is_told_where_there_is_one(
    command: tuple[str, ...],
    kept: str,
    advise: Advise,
    recorded: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise InterruptedRunError(signal.SIGTERM)

    for place, name in ((execution, "execute"), (decision, "decide"), (Store, "history")):
        monkeypatch.setattr(place, name, interrupt)
    ended = advise(*(word.replace("RUN", recorded.name) for word in command))
    assert ended.returncode == 128 + signal.SIGTERM
    assert ended.stderr == f"p3-advisor: stopped{kept.replace('RUN', recorded.name)}\n"


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGINNING + script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("dropping", [IN_A_FINALIZER, IN_A_LOOKUP], ids=["finalizer", "lookup"])
def test_an_interruption_that_is_dropped_is_raised_again(dropping: str) -> None:
    script = """
with Interruptions():
    try:
        drop()
        print("dropped")
        time.sleep(60)
    except InterruptedRunError as problem:
        print("arrived", problem.number)
"""
    assert run(dropping + script).stdout == f"dropped\narrived {signal.SIGTERM.value}\n"


def test_one_on_its_way_is_not_raised_again_and_later_signals_do_not_disturb_what_it_unwinds() -> (
    None
):
    script = """
try:
    with Interruptions():
        try:
            ask_to_end()
        finally:
            ask_to_end()
            time.sleep(4 * AGAIN_SECONDS)
            print("cleaned up")
except InterruptedRunError:
    print("arrived")
"""
    assert run(script).stdout == "cleaned up\narrived\n"


def test_after_the_block_nothing_is_raised_again() -> None:
    script = """
try:
    with Interruptions():
        ask_to_end()
except InterruptedRunError:
    pass
time.sleep(4 * AGAIN_SECONDS)
print("over")
"""
    left = run(script)
    assert (left.stdout, left.stderr, left.returncode) == ("over\n", "", 0)


def test_a_signal_that_was_ignored_from_the_start_stays_ignored() -> None:
    script = """
with Interruptions():
    os.kill(os.getpid(), signal.SIGHUP)
    print("went on", flush=True)
    try:
        ask_to_end()
    except InterruptedRunError as problem:
        print("arrived", problem.number)
"""
    ignoring = "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    assert run(ignoring + script).stdout == f"went on\narrived {signal.SIGTERM.value}\n"
