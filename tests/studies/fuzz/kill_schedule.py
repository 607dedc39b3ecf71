"""Send signals to a run in every phase, then resume it: nothing may be left, lost or stuck.

    python tests/studies/fuzz/kill_schedule.py [--kills 100] [--seed 7] [--skip 50]

Runs fake workflows in real processes; a kill takes about ten seconds. The schedule is every
combination of a phase, a signal and a victim, in random order: the advisor, the newest worker, its
watchdog, and the host process of the screens. After each signal it checks that

- no process of the run is left once the advisor has ended,
- every event that was reported as stored is on the disk, and stays there,
- `resume` ends, and the run is then finished and can be decided.

The exit code is 1 if one of these does not hold. The result is a table of kills and failures by
signal.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT)]

import psutil

from advisor.catalogue import rubric_files
from advisor.domain.run_events import WorkerReported
from advisor.pipeline.decision import decide
from advisor.store.runs import Run
from probes.wire.events import PhaseStarted

FAKES = ROOT / "tests" / "fakes"
PHASES = ("import", "build", "correctness", "warmup", "measure")
SIGNALS = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGSTOP")
VICTIMS = ("advisor", "worker", "watchdog", "host")
#: A stopped process continues after this long.
STOPPED_SECONDS = 1.0
PHASE_SECONDS, END_SECONDS, GONE_SECONDS = 60.0, 120.0, 15.0
Case = tuple[str, str, str]


class KillError(AssertionError):
    """A promise that a kill has broken."""


def schedule(kills: int, seed: int) -> list[Case]:
    """Return phase, signal and victim of each kill, in random order."""
    cases = list(itertools.product(PHASES, SIGNALS, VICTIMS))
    random.Random(seed).shuffle(cases)
    return list(itertools.islice(itertools.cycle(cases), kills))


class Fakes:
    """The fake workflows and rubric, as the fixtures of the tests make them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.probes, self.rubric = folder / "probes", folder / "rubric"
        ignore = shutil.ignore_patterns("workflows", "__pycache__")
        shutil.copytree(rubric_files.probes_directory(), self.probes, ignore=ignore)
        shutil.copytree(FAKES / "probes" / "workflows", self.probes / "workflows")
        (self.probes / "workflows" / "__init__.py").touch()
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(rubric_files.rubric_directory(), self.rubric, ignore=ignore)
        shutil.copy(FAKES / "rubric" / "workflows.toml", self.rubric / "workflows.toml")


def start(fakes: Fakes, home: pathlib.Path, victim: str) -> subprocess.Popen[bytes]:
    """Start or resume a run, by the driver or by the host process of the screens."""
    paths = [str(home), str(fakes.probes), str(fakes.rubric)]
    command = [sys.executable, str(FAKES / "drive.py"), *paths, "quick", "1"]
    if victim == "host":
        runs = sorted((home / "runs").iterdir())
        command = [sys.executable, str(FAKES / "host.py"), *paths[1:], str(runs[-1])]
    with (home.parent / "errors").open("ab") as errors:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "P3_ADVISOR_TEST_MARK": str(home)},
            start_new_session=True,
        )


def prepare_run(fakes: Fakes, home: pathlib.Path) -> None:
    """Store a new run without measuring anything, for the host."""
    program = (
        "import os, pathlib, sys; from advisor.context import Context;"
        "from advisor.pipeline.draft import prepare; from advisor.question.answers import Answers;"
        "from advisor.store.store import Store;"
        "home, probes, rubric = map(pathlib.Path, sys.argv[1:]);"
        "prepare(Answers(batch_sizes='1', budget='1', workflows='quick'), Context("
        "environment=dict(os.environ), store=Store(home), probes=probes, rubric=rubric))"
    )
    paths = [str(home), str(fakes.probes), str(fakes.rubric)]
    subprocess.run([sys.executable, "-c", program, *paths], check=True, cwd=ROOT)


def the_run(home: pathlib.Path) -> Run | None:
    directories = sorted((home / "runs").glob("*/run.json"))
    return Run(directories[-1].parent) if directories else None


def wait_for_phase(process: subprocess.Popen[bytes], home: pathlib.Path, phase: str) -> None:
    """Return when a worker has entered the phase, or the run has ended before."""
    end = time.monotonic() + PHASE_SECONDS
    while time.monotonic() < end and process.poll() is None:
        run = the_run(home)
        for event in run.events() if run else ():
            reported = event.run_event
            if (
                isinstance(reported, WorkerReported)
                and reported.arm != "reference"
                and isinstance(reported.worker_event, PhaseStarted)
                and reported.worker_event.phase == phase
            ):
                return
        time.sleep(0.01)


def victim_of(process: subprocess.Popen[bytes], victim: str) -> psutil.Process:
    """Return the process that gets the signal."""
    parent = psutil.Process(process.pid)
    if victim in {"advisor", "host"}:
        return parent
    with contextlib.suppress(psutil.Error):
        watchdogs = sorted(parent.children(), key=psutil.Process.create_time)
        if watchdogs:
            workers = watchdogs[-1].children()
            return watchdogs[-1] if victim == "watchdog" or not workers else workers[0]
    return parent


def marked(home: pathlib.Path) -> list[psutil.Process]:
    """Return the processes that were started for this run and have not ended."""
    return [
        process
        for process in psutil.process_iter(["environ", "status"])
        if (process.info["environ"] or {}).get("P3_ADVISOR_TEST_MARK") == str(home)
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def kill_once(fakes: Fakes, folder: pathlib.Path, case: Case) -> None:
    """Send one signal, check the promises, and resume the run to its end."""
    phase, name, victim = case
    home = folder / "home"
    if victim == "host":
        prepare_run(fakes, home)
    process = start(fakes, home, victim)
    try:
        wait_for_phase(process, home, phase)
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            send(victim_of(process, victim), name)
        stored = wait_for_end(process)
        check_gone(home)
        check_stored(home, stored)
        resume(fakes, home)
        check_gone(home)
    finally:
        for left in marked(home):
            with contextlib.suppress(psutil.Error):
                left.kill()
        process.kill()
        process.wait()


def send(target: psutil.Process, name: str) -> None:
    """Send a signal; a stopped process continues after a while."""
    target.send_signal(signal.Signals[name])
    if name == "SIGSTOP":
        time.sleep(STOPPED_SECONDS)
        target.send_signal(signal.SIGCONT)


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of the advisor; return the last event that it reported as stored."""
    try:
        output, _ = process.communicate(timeout=END_SECONDS)
    except subprocess.TimeoutExpired as problem:
        raise KillError("the run does not end after the signal") from problem
    numbers = [int(line) for line in output.split() if line.isdigit()]
    return max(numbers, default=0)


def check_gone(home: pathlib.Path) -> None:
    """Raise `KillError` if processes of the run are left."""
    end = time.monotonic() + GONE_SECONDS
    while left := marked(home):
        if time.monotonic() >= end:
            raise KillError(f"left behind: {[process.cmdline() for process in left]}")
        time.sleep(0.05)


def check_stored(home: pathlib.Path, reported: int) -> None:
    """Raise `KillError` if fewer events are stored than were reported as stored."""
    run = the_run(home)
    count = len(run.events()) if run else 0
    if count < reported:
        raise KillError(f"{count} events are stored, {reported} were reported as stored")


def resume(fakes: Fakes, home: pathlib.Path) -> None:
    """Resume the run; raise `KillError` unless it ends finished, with the events from before."""
    run = the_run(home)
    before = run.events() if run else []
    if run is None or not before or not run.state().finished:
        if run is not None and not before:
            shutil.rmtree(run.directory)  # the kill came before the plan was stored
        process = start(fakes, home, "advisor")
        wait_for_end(process)
        if process.returncode != 0:
            raise KillError(f"resume ended with {process.returncode}")
    run = the_run(home)
    assert run is not None
    if run.events()[: len(before)] != before:
        raise KillError("resume has changed stored events")
    if not decide(run).finished:
        raise KillError("the resumed run is not finished")


def run_schedule(cases: list[Case]) -> Iterator[tuple[Case, str]]:
    """Yield each case with its failure, which is empty for none."""
    with tempfile.TemporaryDirectory() as folder:
        fakes = Fakes(pathlib.Path(folder))
        for number, case in enumerate(cases):
            place = pathlib.Path(folder) / str(number)
            place.mkdir()
            failure = ""
            try:
                kill_once(fakes, place, case)
            except Exception as problem:  # noqa: BLE001 - the schedule goes on
                errors = (place / "errors").read_text(errors="replace")[-500:]
                failure = f"{type(problem).__name__}: {problem}\n{errors}"
            yield case, failure
            shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    """Run the schedule of the command line and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first kills")
    arguments = parser.parse_args()
    cases = schedule(arguments.kills, arguments.seed)[arguments.skip :]
    kills, failures = collections.Counter[str](), collections.Counter[str]()
    for case, failure in run_schedule(cases):
        kills[case[1]] += 1
        failures[case[1]] += bool(failure)
        print(*case, failure or "ok", flush=True)
    for name, count in kills.items():
        print(f"{name:8} {count:4} kills {failures[name]:4} failures")
    sys.exit(any(failures.values()))


if __name__ == "__main__":
    main()
