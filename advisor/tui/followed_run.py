"""One run as the screens show it: its events, its runner, and its provisional ranking."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import TypeAlias

from advisor.decide.answers import answer_from_state
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.event_folding import fold
from advisor.domain.import_path import ADVISOR_COMMAND, without_current_directory
from advisor.domain.run_events import LoggedEvent, ProvisionalAnswer, WorkerReported
from advisor.domain.run_state import Header, RunState
from advisor.report import progress_lines
from advisor.store.runs import Run
from advisor.tui.panels import format_clock, printable
from probes.events import PhaseStarted

#: Seconds between two refreshes: drawing must not disturb the timing.
REFRESH_SECONDS = 0.5
RANKING_INTERVAL_SECONDS = 3.0

NOT_CONTROLLED_MESSAGE = "no process works on this run"


class FollowedRun:
    """The run that is shown, after the events read so far."""

    def __init__(self, run: Run, runner: RunnerProcess | None = None) -> None:
        self.run = run
        self.header: Header = run.header()
        #: Bytes of the events that were read, and when the last of them was written.
        self._offset, self._written_at = 0, time.time()
        self.state = RunState()
        #: The process that works on the run, if this program started it.
        self.runner = runner
        self.is_pause_requested = False
        #: Arms that the user has skipped from here.
        self.skipped: set[str] = set()
        #: Run time in seconds at which the current phase of each arm began.
        self.phase_entered_at: dict[str, float] = {}
        #: The arm of the last event.
        self.active_arm: str | None = None
        #: What was built, timed, repeated and left out, with the time of the run: a line for each.
        self.timeline: list[str] = []
        self.provisional: Answer | None = None
        #: The arm that is shown as the answer so far.
        self.leader: RankedArm | None = None
        self._ranked_seq, self._ranked_at = 0, -RANKING_INTERVAL_SECONDS

    @property
    def is_running(self) -> bool:
        """Whether a process works on the run, which this or another program may have started."""
        return self.runner.is_running if self.runner is not None else self.run.is_active()

    @property
    def is_paused(self) -> bool:
        return self.run.control.is_paused() and self.is_running

    @property
    def is_finished(self) -> bool:
        """Whether the run has finished and does not measure on."""
        return self.state.finished and not self.is_running

    def refresh(self) -> None:
        events = self.read_events()
        for event in events:
            run_event = event.run_event
            line = progress_lines.render_event(event)
            # The answer so far has a place of its own.
            if line is not None and not isinstance(run_event, ProvisionalAnswer):
                self.timeline.append(f"{format_clock(event.at)}  {printable(line, 600)}")
            arm = getattr(run_event, "arm", None)
            if arm is None:
                continue
            self.active_arm = arm
            if not isinstance(run_event, WorkerReported) or isinstance(
                run_event.worker_event, PhaseStarted
            ):
                self.phase_entered_at[arm] = event.at
        self.state = fold(events, self.state)
        if self.is_pause_requested and (self.is_paused or not self.is_running):
            self.is_pause_requested = False

    def read_events(self) -> list[LoggedEvent]:
        """Return the new events of the run, which another process may be writing."""
        events, self._offset = self.run.read_events_after(self._offset)
        if events:
            self._written_at = self.run.written_at()
        return events

    def now(self) -> float:
        """Return the current run time in seconds; it stands still while a run is paused or over.

        It is the same in all programs that show the run, whenever they opened it.
        """
        goes_on = self.is_running and not self.is_paused
        since = time.time() - self._written_at if goes_on else 0.0
        return self.state.at + max(since, 0.0)

    def toggle_pause(self) -> None:
        """Pause after the current timed section, or go on; raise `RunNotControllableError`."""
        is_pausing = not (self.is_paused or self.is_pause_requested)
        self.run.control.send("pause" if is_pausing else "go")
        self.is_pause_requested = is_pausing

    def cancel(self) -> None:
        if self.runner is not None:
            self.runner.cancel()
        else:
            self.run.control.send("cancel")

    def why_not_skipped(self, arm: str) -> str:
        """Return why an arm cannot be skipped; empty if it can, also before its worker starts."""
        if arm in self.state.baselines:
            return f"{arm} cannot be skipped: the other arms are compared with it"
        return f"{arm} has ended" if self.state.last_process(arm).outcome is not None else ""

    def skip(self, arm: str) -> None:
        self.run.control.send(f"skip {arm}")
        self.skipped.add(arm)

    def ranking_job(self, now: float) -> Callable[[], Answer] | None:
        """Return a function that decides as if the run ended now, to be called in a thread.

        Return None if no event is new or the last ranking is recent.
        """
        is_recent = now - self._ranked_at < RANKING_INTERVAL_SECONDS
        if not self.state.last_groups or self.state.seq == self._ranked_seq or is_recent:
            return None
        self._ranked_seq, self._ranked_at = self.state.seq, now
        return functools.partial(answer_from_state, self.header, self.state)

    def set_provisional(self, answer: Answer) -> None:
        self.provisional = answer
        self.leader = choose_leader(answer, self.leader.arm if self.leader else "")


def choose_leader(answer: Answer, before: str) -> RankedArm | None:
    """Return the arm to show as the answer so far: `before` while it is about as good as the best.

    On a busy machine another one of equal arms is the best after each round.
    """
    viable = [each for each in answer.ranking if not (each.scored.failures or each.scored.unproven)]
    shown = next((each for each in viable if each.arm == before), None)
    best = answer.advised or (viable[0] if viable else None)
    if shown is None or best is None:
        return best
    if answer.recommendation is None:
        # Intervals that overlap do not decide; at first, none is known.
        is_as_good = (best.speedup.low or 0.0) <= (shown.speedup.high or math.inf)
    else:
        decision = answer.recommendation.decision
        # An open decision allows all of its contenders.
        equals = decision.contenders if decision.word == "OPEN" else decision.as_good
        is_as_good = shown.arm in equals
    return shown if is_as_good else best


#: Starts the process that works on a run, with the seconds to wait for a quiet machine, if given.
StartRunner: TypeAlias = "Callable[[Run, float | None], RunnerProcess]"
RUNNER_COMMAND = (*ADVISOR_COMMAND, "runner")
TERMINATION_SECONDS = 3.0
ERROR_PREFIX = "p3-advisor: "


class RunnerProcess:
    """The process that works on one run.

    If this process is killed, the standard input of the other closes, and it ends the run.
    """

    def __init__(
        self, run: Run, wait_seconds: float | None = None, command: tuple[str, ...] = RUNNER_COMMAND
    ) -> None:
        """Start it; it waits for a quiet machine, by default as long as the question says."""
        run.control.clear()
        wait = [] if wait_seconds is None else ["--wait-seconds", f"{wait_seconds:g}"]
        self._log = run.directory / "runner.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - an argument list, no shell
                [*command, str(run.directory), *wait],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=without_current_directory(os.environ),
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        if self._process.poll() is None:
            return True
        self._close_pipe()
        return False

    def detach(self) -> None:
        """Let the process continue after this one ends."""
        assert self._process.stdin is not None  # noqa: S101 - for the type checker: stdin=PIPE
        with contextlib.suppress(BrokenPipeError, ValueError):  # the process has ended
            self._process.stdin.write(b"stay\n")
            self._process.stdin.flush()
        self._close_pipe()

    def _close_pipe(self) -> None:
        assert self._process.stdin is not None  # noqa: S101 - as above
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def cancel(self) -> None:
        """Ask the process to end the run; the measurements are kept."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def terminate(self) -> None:
        """End the process, and with it the workers, before this call returns."""
        self.cancel()
        try:
            self._process.wait(TERMINATION_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close_pipe()

    def failure_reason(self) -> str:
        """Return the last two lines that the process wrote to standard error."""
        try:
            content = self._log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        lines = [
            line.removeprefix(ERROR_PREFIX).strip() for line in content.splitlines() if line.strip()
        ]
        return "; ".join(lines[-2:])
