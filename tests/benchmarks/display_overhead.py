"""Measure whether the screens and the GPU poller slow timed calls down.

    python tests/benchmarks/display_overhead.py            # 12 rounds: about a minute
    python tests/benchmarks/display_overhead.py --gpu 0 --rounds 40

Records a small run, then times the baseline and its duplicate in turn, in each round with and
without the terminal program, which replays the run on a pseudo-terminal. Target: no slowdown beyond
the noise floor.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import math
import os
import pathlib
import pty
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator

sys.path[:0] = [str(pathlib.Path(__file__).parents[2]), str(pathlib.Path(__file__).parent)]

from baseline_pair import (
    BaselinePair,
    Effect,
    estimate_effect,
    open_baseline_pair,
    sample_in_rounds,
    time_pair,
)

from advisor.context import Context
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store.runs import Run
from advisor.store.store import Store

#: A small model, whose short calls show a disturbance best.
MODEL = "synthetic/ffn@256x1024"
#: At half the recorded speed, because the screens are stopped most of the time and the replay must
#: last until the end.
REPLAY_SPEED = "0.5"
#: The screens count as started after this much output or this long.
FIRST_SCREEN_BYTES, FIRST_SCREEN_SECONDS = 2000, 30.0
ROWS, COLUMNS = 40, 140


@contextlib.contextmanager
def replaying_screens(run: Run) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the terminal program after its first screen, stopped; kill it after the block."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {name: os.environ[name] for name in os.environ if name not in {"CI", "NO_COLOR"}}
    command = [sys.executable, "-m", "advisor", "--replay", str(run.directory)]
    with subprocess.Popen(
        [*command, "--speed", REPLAY_SPEED],
        cwd=pathlib.Path(__file__).parents[2],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment | {"TERM": "xterm-256color"},
        start_new_session=True,
    ) as process:
        os.close(terminal)
        is_drawn = threading.Event()
        threading.Thread(target=drain, args=(controller, is_drawn), daemon=True).start()
        is_drawn.wait(FIRST_SCREEN_SECONDS)
        process.send_signal(signal.SIGSTOP)
        try:
            yield process
        finally:
            process.kill()


def drain(terminal: int, is_drawn: threading.Event) -> None:
    """Read the output until the program ends; a full terminal would block the program."""
    count = 0
    with contextlib.suppress(OSError):
        while received := os.read(terminal, 1 << 16):
            count += len(received)
            if count >= FIRST_SCREEN_BYTES:
                is_drawn.set()
    is_drawn.set()


def measure(
    pair: BaselinePair, screens: subprocess.Popen[bytes], rounds: int
) -> tuple[float, Effect]:
    """Return the seconds of an undisturbed call, and the effect of screens and GPU poller."""

    @contextlib.contextmanager
    def drawing() -> Iterator[None]:
        screens.send_signal(signal.SIGCONT)
        with pair.conditions_monitor.running():
            yield
        screens.send_signal(signal.SIGSTOP)

    samples = sample_in_rounds(
        {"without": contextlib.nullcontext, "with": drawing},
        lambda _, number: time_pair(pair.session, pair.arms, max(pair.batch_sizes), number),
        rounds,
    )
    without, disturbed = (
        [each.log_seconds for each in samples[name]] for name in ("without", "with")
    )
    seconds = math.exp(statistics.median(baseline for baseline, _ in without))
    return seconds, estimate_effect(without, disturbed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="cpu")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    answers = Answers(
        gpu=options.gpu, model=MODEL, batch_sizes="1", workflows="pytorch-eager", budget="5"
    )
    with tempfile.TemporaryDirectory() as home:
        context = Context(environment=dict(os.environ), store=Store(pathlib.Path(home)))
        run = prepare(answers, context)
        for _ in execute(run, context):
            pass
        with replaying_screens(run) as screens, open_baseline_pair(answers, context) as pair:
            seconds, effect = measure(pair, screens, options.rounds)
    sys.stdout.write(
        f"a call of {seconds * 1e3:.3g} ms changes by {effect} with the screens;"
        f" noise floor {effect.noise * 100:.1f} %\n"
    )


if __name__ == "__main__":
    main()
