"""One run as the screens show it: its state, its host process and its provisional ranking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from advisor.decide.decision import evaluate
from advisor.domain.answer import Answer
from advisor.domain.plan import REFERENCE
from advisor.store.runs import Run
from advisor.tui.run.event_source import EventFileTail, RecordingPlayback, RunFollower
from advisor.tui.run.host_process import HostProcess

#: Seconds between two refreshes: while arms compile, while they are timed (drawing must not
#: disturb the timing), and while no process works on the run.
COMPILING_REFRESH_SECONDS, TIMING_REFRESH_SECONDS, IDLE_REFRESH_SECONDS = 0.2, 0.5, 1.0
#: Seconds between two provisional rankings.
RANKING_INTERVAL_SECONDS = 3.0

NOT_CONTROLLED_MESSAGE = "no process works on this run, or it is a recording"

#: Result of a request to skip an arm; only "skipping" ends a worker.
SkipResult = Literal["skipping", "not-controlled", "required", "not-running"]


class RunSession:
    """The run that is shown."""

    def __init__(
        self,
        follower: RunFollower,
        host: HostProcess | None,
        *,
        is_replay: bool = False,
    ) -> None:
        self.follower = follower
        #: The process that works on the run, if this program started it.
        self.host = host
        self.is_replay = is_replay
        self.is_pause_requested = False
        self.provisional: Answer | None = None
        self._ranked_seq, self._ranked_at = 0, -RANKING_INTERVAL_SECONDS

    @classmethod
    def for_run(cls, run: Run, host: HostProcess | None = None) -> RunSession:
        """Return the session of a stored run."""
        return cls(RunFollower(run, EventFileTail(run)), host)

    @classmethod
    def replay(cls, run: Run, speed: float) -> RunSession:
        return cls(RunFollower(run, RecordingPlayback(run, speed)), None, is_replay=True)

    @property
    def is_running(self) -> bool:
        """Whether a process works on the run, or the playback has not reached its end."""
        if self.is_replay:
            return not self.follower.state.finished
        return self.host.is_running if self.host is not None else self.follower.run.is_active()

    @property
    def is_paused(self) -> bool:
        return not self.is_replay and self.follower.run.control.is_paused() and self.is_running

    @property
    def is_finished(self) -> bool:
        return self.follower.state.finished

    @property
    def is_going_on(self) -> bool:
        """Whether there is more to come of the run."""
        return self.is_running and not self.is_finished

    @property
    def refresh_interval_seconds(self) -> float:
        if not self.is_running:
            return IDLE_REFRESH_SECONDS
        is_timing = len(self.follower.state.opened) > len(self.follower.state.closed)
        return TIMING_REFRESH_SECONDS if is_timing else COMPILING_REFRESH_SECONDS

    def refresh(self) -> None:
        """Read new events and the state of the run."""
        self.follower.read_new_events()
        if self.is_pause_requested and (self.is_paused or not self.is_running):
            self.is_pause_requested = False

    def failure_reason(self) -> str:
        """Return the error of the host process, if it wrote one."""
        return self.host.failure_reason() if self.host is not None else ""

    @property
    def is_controlled(self) -> bool:
        """Whether a process works on the run, which this or another program may have started."""
        return not self.is_replay and self.is_running

    def toggle_pause(self) -> bool:
        """Pause after the current timed section, or continue.

        Return False if no process works on the run; raise `RunNotControllableError` if it belongs
        to another user.
        """
        if not self.is_controlled:
            return False
        is_pausing = not (self.is_paused or self.is_pause_requested)
        self.follower.run.control.send("pause" if is_pausing else "go")
        self.is_pause_requested = is_pausing
        return True

    def cancel(self) -> None:
        if self.host is not None:
            self.host.cancel()
        else:
            self.follower.run.control.send("cancel")

    def skip(self, arm: str) -> SkipResult:
        """Request that the worker of an arm is ended.

        The reference, the baseline and its duplicates cannot be skipped: all other arms are
        compared with them.
        """
        plan, processes = self.follower.state.plan, self.follower.state.processes.get(arm, ())
        required = {REFERENCE}
        if plan is not None:
            required.add(plan.baseline.id)
            required |= {each.id for each in plan.arms if each.duplicate_of is not None}
        if not self.is_controlled:
            return "not-controlled"
        if arm in required:
            return "required"
        if not processes or processes[-1].outcome is not None:
            return "not-running"
        self.follower.run.control.send(f"skip {arm}")
        return "skipping"

    def ranking_job(self, now: float) -> Callable[[], Answer] | None:
        """Return a function that ranks the arms provisionally, to be called in a thread.

        Return None if no event is new or the last ranking is recent.
        """
        header, state = self.follower.header, self.follower.state
        is_recent = now - self._ranked_at < RANKING_INTERVAL_SECONDS
        if not state.opened or state.seq == self._ranked_seq or is_recent:
            return None
        self._ranked_seq, self._ranked_at = state.seq, now
        return lambda: evaluate(header, state)

    def set_provisional(self, answer: Answer) -> None:
        self.provisional = answer

    def decide(self) -> Answer:
        return evaluate(self.follower.header, self.follower.state)
