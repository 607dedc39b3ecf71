"""Does watching disturb the timing?

The same worker timed with and without the screens and the GPU's poller, in turns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import math
import os
import pathlib
import pty
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator, Sequence
from typing import Literal

from advisor.context import Context
from advisor.domain.outcome import Failure
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run import Header
from advisor.domain.run_events import RunEvent
from advisor.errors import NothingViableError
from advisor.measure import block_value
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute, open_session
from advisor.probing.conditions import GpuWatch, Guard
from advisor.probing.session import Session
from advisor.question.answers import Answers
from advisor.statistics.intervals import paired_interval
from advisor.store import Run, Store

#: Small, so that a disturbance would be large against it.
MODEL = "synthetic/ffn@256x1024"
ROUNDS = 12
#: Visits for which the screens run or rest; about a fifth of a second.
VISITS = 4
#: Wider than this the interval of the change says nothing.
WIDEST = 0.05
#: Half as fast as it happened: the screens rest most of the time and must not have shown all before
#: the end.
REPLAY_SPEED = 0.5
#: When the screens have started: so much is drawn, or it has taken so long.
FIRST_SCREEN_BYTES, FIRST_SCREEN_SECONDS = 2000, 30.0
ROWS, COLUMNS = 40, 140
LEVEL = 0.025


@dataclasses.dataclass(frozen=True)
class Observation:
    """What watching does to the timing, in words."""

    status: Literal["ok", "warn"]
    words: str
    fix: str | None
    #: Shares by which a call takes longer: value and 95 % interval.
    change: tuple[float, float, float]
    #: Share by which two measurements without watching still may differ.
    noise: float


def judge(
    without: Sequence[float],
    again: Sequence[float],
    watched: Sequence[float],
    *,
    seconds: float,
    polls: bool,
) -> Observation:
    """Compare log seconds by round: without watching, without it again, and with it."""
    low, value, high = (math.expm1(each) for each in _paired(watched, without))
    noise = max(abs(math.expm1(each)) for each in _paired(again, without))
    what = "the screens and the GPU's poller" if polls else "the screens"
    words = (
        f"a call of {seconds * 1e3:.3g} ms takes {value:+.1%} with {what} running (95 %: {low:+.1%} to {high:+.1%}); "
        f"two measurements without them may differ by {noise:.1%}"
    )
    if high - low > 2 * WIDEST:
        return Observation(
            "warn",
            f"{words}: too noisy to tell",
            "end other work and look again",
            (value, low, high),
            noise,
        )
    if low > 0 and value > noise:
        fix = "measure with --json or --plain and look at the results afterwards"
        return Observation(
            "warn", f"{words}: watching slows what is timed", fix, (value, low, high), noise
        )
    return Observation(
        "ok",
        f"{words}: watching changes nothing that can be seen here",
        None,
        (value, low, high),
        noise,
    )


def _paired(ones: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    return paired_interval([one - other for one, other in zip(ones, others, strict=True)], LEVEL)


def observe(python: str, world: Context, *, rounds: int = ROUNDS) -> Observation:
    """Record a small run, then time its baseline with and without the screens that play it back; nothing is kept."""
    with tempfile.TemporaryDirectory() as place:
        here = dataclasses.replace(world, store=Store(pathlib.Path(place)))
        answers = Answers(
            python=python, model=MODEL, batch_sizes="1", workflows="pytorch-eager", budget="5"
        )
        recorded = prepare(answers, here)
        for _ in execute(recorded, here):
            pass
        run = prepare(answers, here)
        header = run.header()
        gpu = header.question.gpu
        guard = Guard(GpuWatch(gpu) if gpu else None)
        with (
            open_session(run, header, here, guard) as session,
            Screens(recorded).drawing() as screens,
        ):
            arm = _bring_up(session, header)
            return _compare(session, arm, header, screens, guard, rounds)


def _bring_up(session: Session, header: Header) -> Arm:
    """Start and build the baseline's worker."""
    baseline = Arm(id="pytorch-eager", workflow="pytorch-eager", option="default", options={})
    workflow = next(
        workflow for workflow in header.catalogue.workflows if workflow.id == baseline.workflow
    )
    baseline = Arm(
        id=baseline.id,
        workflow=baseline.workflow,
        option="default",
        options=workflow.arms["default"],
    )
    _exhaust(session.make_reference(baseline, 0))
    _exhaust(session.start([(baseline, 0)]))
    if session.is_running(REFERENCE):
        _exhaust(session.ask(REFERENCE, "stop"))
    _exhaust(session.build(baseline.id))
    if not session.is_running(baseline.id):
        raise NothingViableError(
            "the baseline's worker ended, so there is nothing to time", "see p3-advisor doctor"
        )
    return baseline


def _compare(
    session: Session, arm: Arm, header: Header, screens: Screens, guard: Guard, rounds: int
) -> Observation:
    conditions = ("without", "again", "watched")
    records: dict[str, list[float]] = {condition: [] for condition in conditions}
    chance = random.Random(header.question.seed)  # noqa: S311 - an order of visits, not a secret
    for number in range(1, rounds + 1):
        for condition in chance.sample(conditions, len(conditions)):
            with contextlib.ExitStack() as watching:
                if condition == "watched":
                    watching.enter_context(screens.awake())
                    watching.enter_context(guard.running())
                records[condition].append(
                    _time(session, arm.id, max(header.question.batch_sizes), number)
                )
    seconds = math.exp(statistics.median(records["without"]))
    return judge(
        records["without"],
        records["again"],
        records["watched"],
        seconds=seconds,
        polls=header.question.gpu is not None,
    )


def _time(session: Session, arm: str, batch_size: int, number: int) -> float:
    """Return the median of a few visits, the first of which only settles what has changed."""
    values = []
    for _ in range(VISITS + 1):
        _exhaust(session.visit(arm, batch_size, number))
        visit = session.last_visit(arm)
        if visit is None:
            raise NothingViableError(
                "the baseline's worker ended while it was timed", "see p3-advisor doctor"
            )
        values.append(block_value(visit))
    return statistics.median(values[1:])


def _exhaust(run_events: Iterator[RunEvent]) -> None:
    for run_event in run_events:
        outcome = getattr(run_event, "outcome", None)
        if isinstance(outcome, Failure):
            raise NothingViableError(f"a worker ended: {outcome.reason}", "see p3-advisor doctor")


class Screens:
    """Our own terminal program, which plays a recorded run back on a terminal that nobody looks at."""

    def __init__(self, run: Run) -> None:
        self._command = [
            sys.executable,
            "-m",
            "advisor",
            "--replay",
            str(run.directory),
            "--speed",
            str(REPLAY_SPEED),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def drawing(self) -> Iterator[Screens]:
        """Start the program, let it draw its first screen, and let it rest; end it with the block."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {
            name: value for name, value in os.environ.items() if name not in {"CI", "NO_COLOR"}
        } | {"TERM": "xterm-256color"}
        with subprocess.Popen(  # noqa: S603 - an argument list, no shell
            self._command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        ) as self._process:
            os.close(theirs)
            drawn = threading.Event()
            reader = threading.Thread(
                target=_drain, args=(ours, drawn), name="screens", daemon=True
            )
            reader.start()
            drawn.wait(FIRST_SCREEN_SECONDS)
            self._process.send_signal(signal.SIGSTOP)
            try:
                yield self
            finally:
                self._process.kill()
                self._process.wait()
                reader.join()
                os.close(ours)

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Let the program draw while the block runs."""
        assert self._process is not None  # noqa: S101 - for the type checker: within `drawing`
        self._process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGSTOP)


def _drain(terminal: int, drawn: threading.Event) -> None:
    """Read what is drawn until the program has ended: a terminal that is full would hold it up."""
    count = 0
    with contextlib.suppress(OSError):
        while received := os.read(terminal, 1 << 16):
            count += len(received)
            if count >= FIRST_SCREEN_BYTES:
                drawn.set()
    drawn.set()
