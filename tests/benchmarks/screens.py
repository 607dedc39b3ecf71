"""Time the first paint on a pseudo-terminal, and the new ranking of 24 arms after a weight changes.

`python tests/benchmarks/screens.py` prints a table. The times depend on the machine, so the table
includes the start of the bare interpreter.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import pty
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

import builders
import built_answers
from onscreen import running_app

from advisor.context import Context
from advisor.store.store import Store
from advisor.tui.answer import RunAnswer
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.widgets.weights import Weights

ARMS, REPEATS, PROCESS_REPEATS = 24, 15, 9


def seconds_until(text: bytes, *command: str) -> float:
    """Return how long a program on a terminal takes to show `text`."""
    # Users have compiled modules.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    start = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            command[0],
            command,
            {
                **environment,
                "TERM": "xterm-256color",
                "P3_ADVISOR_HOME": tempfile.gettempdir() + "/p3-benchmark",
            },
        )
    out = b""
    while text not in out:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        if not chunk:
            break
        out += chunk
    seconds = time.perf_counter() - start
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(terminal)
    return seconds


def large_answer() -> RunAnswer:
    """Return an answer with 24 arms, of which many lead for some weights."""
    names = [f"arm-{number:02}" for number in range(ARMS)]
    workflows = [
        builders.workflow(
            name,
            declared=builders.declared(
                lines_changed=number * 3,
                vendors=number % 4 + 1,
                new_shapes=("served", "recompiles", "refused")[number % 3],
            ),
        )
        for number, name in enumerate(names)
    ]
    header = builders.header(catalogue=builders.catalogue(*workflows))
    results = builders.results(
        builders.measurement(builders.BASELINE, speedup=1.0),
        *[
            builders.measurement(name, speedup=0.9 + number * 0.03)
            for number, name in enumerate(names)
        ],
    )
    return RunAnswer(built_answers.answer_of(results, header), header.catalogue)


async def time_weight_changes() -> list[float]:
    """Return the seconds from each change of a weight to the drawn ranking."""
    answer, durations = large_answer(), []
    with tempfile.TemporaryDirectory() as home:
        app = AdvisorApp(LaunchOptions(), Context(environment={}, store=Store(pathlib.Path(home))))
        async with running_app(app, (140, 40)) as pilot:
            app.run_controller.show_answer(answer)
            await pilot.pause(0.5)
            screen = app.screen
            assert isinstance(screen, ResultsScreen)
            for number in range(REPEATS):
                weights = screen.query_one(Weights)
                priorities = answer.priorities.with_weight("performance", 5.0 + 6 * number)
                start = time.perf_counter()
                screen.on_weights_changed(Weights.Changed(weights, priorities))
                durations.append(time.perf_counter() - start)
                await pilot.pause()
    return durations


def time_rescoring() -> list[float]:
    """Return the seconds that ranking takes without the screen."""
    answer, durations = large_answer(), []
    for number in range(REPEATS):
        priorities = answer.priorities.with_weight("performance", 5.0 + 6 * number)
        start = time.perf_counter()
        answer.with_priorities(priorities)
        durations.append(time.perf_counter() - start)
    return durations


def print_row(name: str, durations: list[float]) -> None:
    """Print one line of the table."""
    sys.stdout.write(
        f"{name:<52} median {statistics.median(durations) * 1e3:8.1f} ms"
        f"   maximum {max(durations) * 1e3:8.1f} ms\n"
    )


def repeat(measure_seconds: Callable[[], float]) -> list[float]:
    """Return the results of several measurements."""
    return [measure_seconds() for _ in range(PROCESS_REPEATS)]


def main() -> None:
    """Measure and print the table."""
    python, command = sys.executable, str(pathlib.Path(sys.executable).with_name("p3-advisor"))
    seconds_until(b"recommends one", command)  # the first start compiles the modules
    print_row("python -c pass", repeat(lambda: seconds_until(b"never", python, "-c", "pass")))
    print_row(
        "first paint of p3-advisor", repeat(lambda: seconds_until(b"recommends one", command))
    )
    print_row(f"new ranking without the screen, {ARMS} arms", time_rescoring())
    print_row(
        f"changed weight to drawn ranking, {ARMS} arms",
        asyncio.run(time_weight_changes()),
    )


if __name__ == "__main__":
    main()
