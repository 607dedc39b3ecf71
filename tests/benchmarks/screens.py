"""How quick the screens are, as a table: first paint on a pseudo-terminal, and a moved weight with 24 arms until the ranking stands.

`python tests/benchmarks/screens.py`; the times hold for the machine they were taken on, so the bare
interpreter stands beside them.
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
import msgspec
from onscreen import shown

from advisor import recommend, score
from advisor.context import Context
from advisor.pipeline.decision import (
    Decision,
    reconsider,
)
from advisor.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.results import Results
from advisor.tui.widgets.weights import Weights

ARMS, REPEATS = 24, 15


def seconds_until(words: bytes, *command: str) -> float:
    """Return how long a program on a terminal takes to show `words`."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }  # users have compiled modules
    begun = time.perf_counter()
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
    while words not in out:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        if not chunk:
            break
        out += chunk
    taken = time.perf_counter() - begun
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(terminal)
    return taken


def large_decision() -> Decision:
    """Return a decision between 24 arms of which many lead somewhere."""
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
        *[
            builders.measurement(name, speedup=0.9 + number * 0.03)
            for number, name in enumerate(names)
        ]
    )
    ranked = score.score(results, header.question, header.catalogue)
    state = builders.run_state({name: builders.process() for name in names}, finished=True)
    advice = recommend.recommend(results, ranked, header.question, ())
    return Decision(header, state, results, ranked, advice, None)


async def time_weights() -> list[float]:
    """Return seconds from a moved weight to the drawn ranking."""
    decision, taken = large_decision(), []
    with tempfile.TemporaryDirectory() as home:
        app = AdvisorApp(LaunchOptions(), Context(environment={}, store=Store(pathlib.Path(home))))
        async with shown(app, (140, 40)) as pilot:
            app.runs.show_decision(decision)
            await pilot.pause(0.5)
            screen = app.screen
            assert isinstance(screen, Results)
            for number in range(REPEATS):
                weights = screen.query_one(Weights)
                wanted = decision.header.question.priorities.with_weight(
                    "performance", 5.0 + 6 * number
                )
                begun = time.perf_counter()
                screen.on_weights_changed(Weights.Changed(weights, wanted))
                taken.append(time.perf_counter() - begun)
                await pilot.pause()
    return taken


def time_deciding() -> list[float]:
    """Return seconds of deciding alone."""
    decision, taken = large_decision(), []
    for number in range(REPEATS):
        wanted = msgspec.structs.replace(
            decision.header.question.priorities.with_weight("performance", 5.0 + 6 * number)
        )
        begun = time.perf_counter()
        reconsider(decision, wanted, ())
        taken.append(time.perf_counter() - begun)
    return taken


def tell(name: str, taken: list[float]) -> None:
    """Write one line of the table."""
    sys.stdout.write(
        f"{name:<52} median {statistics.median(taken) * 1e3:8.1f} ms   most {max(taken) * 1e3:8.1f} ms\n"
    )


def main(
    repeat: Callable[[Callable[[], float]], list[float]] = lambda once: [once() for _ in range(9)],
) -> None:
    """Measure and tell."""
    python, command = sys.executable, str(pathlib.Path(sys.executable).with_name("p3-advisor"))
    seconds_until(b"Which model", command)  # which compiles the modules
    tell("python -c pass", repeat(lambda: seconds_until(b"never", python, "-c", "pass")))
    tell("first paint of p3-advisor", repeat(lambda: seconds_until(b"Which model", command)))
    tell(f"deciding again, {ARMS} arms", time_deciding())
    tell(f"a moved weight until the table stands, {ARMS} arms", asyncio.run(time_weights()))


if __name__ == "__main__":
    main()
