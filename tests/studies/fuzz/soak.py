"""Make many short runs and check that nothing grows and nothing is left.

    python tests/studies/fuzz/soak.py [--runs 200] [--at-once 20] [--sessions 60]

Three parts, with fake workflows in real worker processes. A run takes about three seconds.

1. `--runs` runs one after the other in one process: its memory, descriptors, threads, children and
   the number of its temporary files are read after each, and the state directory after each run is
   deleted.
2. `--sessions` sessions of the screens in one process, each of which replays a run and presses
   keys. The first third does not count: the caches of Textual and Rich, which have a maximum of
   entries, fill in about 20 sessions.
3. `--at-once` runs at the same time in processes of their own and in one state directory: each
   ends finished with a recommendation or says why not, and none sees the files of another.

The exit code is 1 if the second half of a part needs more than the first: a descriptor, a thread,
a child, a temporary file or `MEMORY_GROWTH_MIB` more.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import TypeAlias

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT)]

import msgspec
import onscreen
import psutil
import recorded_runs
from kill_schedule import FAKES, Fakes

from advisor.context import Context
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store.runs import Run
from advisor.store.store import Store

#: Memory that the second half of the runs may need more than the first. Caches of the interpreter
#: and of the allocator still fill in the first runs.
MEMORY_GROWTH_MIB = 8.0
#: Readings before this share of the runs, or of the sessions, do not count.
WARMUP_SHARE, SESSIONS_WARMUP_SHARE = 0.1, 1 / 3
#: A thread that takes longer counts as one that stays.
THREAD_SECONDS = 60.0
#: A part of the soak: a number of runs or sessions, and the readings after each.
Work: TypeAlias = "Callable[[Fakes, pathlib.Path, int], list[Reading]]"
KEYS = ("tab", "down", "enter", "escape", "?", "escape", "h", "escape", "d", "escape")


class Reading(msgspec.Struct, frozen=True):
    """What the process holds after a run."""

    memory_mib: float
    descriptors: int
    threads: int
    children: int
    temporary_files: int


def read(temporary: pathlib.Path) -> Reading:
    """Return what this process holds now."""
    gc.collect()
    process = psutil.Process()
    return Reading(
        process.memory_info().rss / 2**20,
        process.num_fds(),
        threading.active_count(),
        len(process.children(recursive=True)),
        sum(1 for _ in temporary.rglob("*")),
    )


def growth(readings: list[Reading], warmup_share: float) -> dict[str, float]:
    """Return by how much the second half of the counted readings exceeds the first, in medians."""
    counted = readings[int(len(readings) * warmup_share) :]
    half = len(counted) // 2
    return {
        name: statistics.median(getattr(each, name) for each in counted[half:])
        - statistics.median(getattr(each, name) for each in counted[:half])
        for name in Reading.__struct_fields__
    }


def find_leaks(grown: dict[str, float]) -> list[str]:
    """Return what grows by more than is allowed."""
    return [
        f"{name} grows by {value:g}"
        for name, value in grown.items()
        if value > (MEMORY_GROWTH_MIB if name == "memory_mib" else 0)
    ]


def make_context(fakes: Fakes, home: pathlib.Path) -> Context:
    return Context(
        environment={**os.environ, "P3_ADVISOR_HOME": str(home)},
        store=Store(home),
        probes=fakes.probes,
        rubric=fakes.rubric,
    )


def run_in_a_row(fakes: Fakes, home: pathlib.Path, runs: int) -> list[Reading]:
    """Measure, decide and delete `runs` runs; return the readings after each."""
    answers = Answers(batch_sizes="1", budget="0.3", all_arms=True, workflows="quick")
    readings = []
    for _ in range(runs):
        context = make_context(fakes, home)
        run = prepare(answers, context)
        for _ in execute(run, context):
            pass
        decide(run)
        context.store.history()
        context.store.delete(run.directory.name)
        readings.append(read(home.parent))
    return readings


def show_in_a_row(fakes: Fakes, home: pathlib.Path, sessions: int) -> list[Reading]:
    """Open and close the screens `sessions` times; return the readings after each."""
    run = recorded_runs.make_run(Store(home), finished=True)
    readings = []
    for number in range(sessions):
        asyncio.run(_show(make_context(fakes, home), run, random.Random(number)))
        wait_for_threads()
        readings.append(read(home.parent))
    return readings


def wait_for_threads() -> None:
    """Wait for work that a session has started and that ends after it, such as an examination."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(THREAD_SECONDS)


async def _show(context: Context, run: Run, chance: random.Random) -> None:
    async with onscreen.running_app(onscreen.replay_app(context, run)) as pilot:
        for _ in range(5):
            await pilot.press(chance.choice(KEYS))


def run_at_once(fakes: Fakes, home: pathlib.Path, number: int) -> list[str]:
    """Run `number` runs at the same time; return what went wrong."""
    program = str(FAKES / "drive.py")
    # Each driver has a store of its own only by the run's id: they share the directory.
    paths = [str(fakes.probes), str(fakes.rubric), "quick", "0.3"]
    started = [
        subprocess.Popen(
            [sys.executable, program, str(home), *paths, "new"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(number)
    ]
    problems = []
    for process in started:
        _, errors = process.communicate(timeout=600)
        if process.returncode:
            problems.append(f"exit code {process.returncode}: {errors.decode()[-300:]}")
    store = Store(home)
    entries = store.history()
    if len(entries) != number:
        problems.append(f"{len(entries)} of {number} runs are stored")
    for entry in entries:
        run = Run(store.run_directory(entry.run_id))
        answer = decide(run)
        if not answer.finished:
            problems.append(f"{entry.run_id} is not finished")
        if answer.recommendation is None and answer.problem is None:
            problems.append(f"{entry.run_id} has neither a recommendation nor a reason")
        if run.scratch.exists():
            problems.append(f"{entry.run_id} has left its scratch files")
    return problems


def report(name: str, readings: list[Reading], warmup_share: float) -> list[str]:
    """Print the first, the middle and the last reading; return what grows."""
    grown = growth(readings, warmup_share)
    shown = [readings[0], readings[len(readings) // 2], readings[-1]]
    print(f"{name}: {len(readings)}")
    for field in Reading.__struct_fields__:
        values = "  ".join(f"{getattr(each, field):8.6g}" for each in shown)
        print(f"  {field:16} {values}   growth {grown[field]:g}", flush=True)
    return find_leaks(grown)


def main() -> None:
    """Run the parts of the command line and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--at-once", type=int, default=20)
    arguments = parser.parse_args()
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        fakes = Fakes(place)
        parts: list[tuple[str, int, float, Work]] = [
            ("runs in a row", arguments.runs, WARMUP_SHARE, run_in_a_row),
            ("sessions of the screens", arguments.sessions, SESSIONS_WARMUP_SHARE, show_in_a_row),
        ]
        for name, count, warmup_share, work in parts:
            if count:
                home = place / name.replace(" ", "-") / "home"
                home.parent.mkdir()
                tempfile.tempdir = str(home.parent)
                problems += report(name, work(fakes, home, count), warmup_share)
                tempfile.tempdir = None
        if arguments.at_once:
            found = run_at_once(fakes, place / "at-once", arguments.at_once)
            print(f"runs at once: {arguments.at_once}, problems {len(found)}")
            problems += found
    for problem in problems:
        print(problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
