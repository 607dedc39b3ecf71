"""Send a signal to a run in every phase, then resume it: nothing may be left, lost or stuck.

A kill takes about ten seconds. `-m long` tries every combination of a phase, a signal and a victim,
which is the advisor, the newest worker, its watchdog or the runner of the screens.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
import sessions
import workers

from advisor.ask.context import Context
from advisor.report.answer_files import answer_of_run
from advisor.store.runs import Run
from probes.events import PhaseStarted

pytestmark = pytest.mark.slow

FAKES = pathlib.Path(__file__).parents[1] / "fakes"
#: The combinations that every run of the tests tries.
ALWAYS = {("build", "SIGTERM", "advisor"), ("warmup", "SIGKILL", "watchdog")}
PHASES = ("import", "build", "correctness", "warmup", "measure")
SIGNALS = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGSTOP")
VICTIMS = ("advisor", "worker", "watchdog", "runner")
#: A stopped process continues after this long.
STOPPED_SECONDS = 1.0
PHASE_SECONDS, END_SECONDS = 60.0, 120.0


def start(
    victim: str, home: pathlib.Path, probes: pathlib.Path, catalogue: pathlib.Path
) -> subprocess.Popen[bytes]:
    """Start or resume a run, by the driver or by the runner of the screens."""
    command = [FAKES / "drive.py", home, probes, catalogue, "quick", "1s"]
    if victim == "runner":
        command = [FAKES / "runner.py", probes, catalogue, newest_run(home)]
    with (home.parent / "errors").open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, workers.MARK_VARIABLE: str(home)},
            start_new_session=True,
        )


def newest_run(home: pathlib.Path) -> pathlib.Path | None:
    return max((each.parent for each in home.glob("runs/*/run.json")), default=None)


def victim_of(process: subprocess.Popen[bytes], victim: str) -> psutil.Process:
    parent = psutil.Process(process.pid)
    if victim in {"advisor", "runner"}:
        return parent
    with contextlib.suppress(psutil.Error):
        watchdogs = sorted(parent.children(), key=psutil.Process.create_time)
        if watchdogs:
            started = watchdogs[-1].children()
            return watchdogs[-1] if victim == "watchdog" or not started else started[0]
    return parent


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of the advisor; return the last event that it reported as stored."""
    output, _ = process.communicate(timeout=END_SECONDS)
    return max((int(line) for line in output.split() if line.isdigit()), default=0)


@pytest.mark.parametrize(
    ("phase", "name", "victim"),
    [
        pytest.param(*each, marks=() if each in ALWAYS else pytest.mark.long)
        for each in itertools.product(PHASES, SIGNALS, VICTIMS)
    ],
)
def test_a_killed_run_leaves_nothing_and_loses_nothing(
    phase: str,
    name: str,
    victim: str,
    home: pathlib.Path,
    fake_probes: pathlib.Path,
    fake_catalogue: pathlib.Path,
    context: Context,
) -> None:
    if victim == "runner":
        sessions.create_run(context, sessions.short_options("quick", all_arms=False))

    def is_gone() -> bool:
        return not workers.find_marked(str(home))

    def is_reached() -> bool:
        """Return whether a worker has entered the phase, or the run has ended before."""
        directory = newest_run(home)
        events = Run(directory).events() if directory else []
        return process.poll() is not None or any(
            report.arm != "reference" and started.phase == phase
            for report, started in sessions.reports_of(events, PhaseStarted)
        )

    home.mkdir(exist_ok=True)
    with start(victim, home, fake_probes, fake_catalogue) as process:
        try:
            workers.wait_until(is_reached, PHASE_SECONDS)
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                target = victim_of(process, victim)
                target.send_signal(signal.Signals[name])
                if name == "SIGSTOP":
                    time.sleep(STOPPED_SECONDS)
                    target.send_signal(signal.SIGCONT)
            reported = wait_for_end(process)
            workers.wait_until(is_gone)
            directory = newest_run(home)
            before = Run(directory).events() if directory else []
            assert len(before) >= reported
            if directory and not before:
                shutil.rmtree(directory)  # the kill came before the plan was stored
                directory = None
            if not directory or not Run(directory).state().finished:
                with start("advisor", home, fake_probes, fake_catalogue) as resumed:
                    wait_for_end(resumed)
                assert resumed.returncode == 0, (home.parent / "errors").read_text()
            directory = newest_run(home)
            assert directory is not None
            assert Run(directory).events()[: len(before)] == before
            assert answer_of_run(Run(directory)).finished
            workers.wait_until(is_gone)
        finally:
            for left in workers.find_marked(str(home)):
                with contextlib.suppress(psutil.Error):
                    left.kill()
