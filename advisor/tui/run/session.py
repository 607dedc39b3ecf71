"""One run as the screens see it: what it has come to, who works on it, and who leads so far.

Knows nothing of screens.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from advisor.domain.plan import REFERENCE
from advisor.pipeline.decision import Decision, judge
from advisor.store import Run
from advisor.tui.run.event_source import Follower, Recording, Tail
from advisor.tui.run.host_process import Host

#: Seconds between two looks: while it compiles, while it is timed, and when nobody works on it.
TICK_SECONDS, QUIET_SECONDS, IDLE_SECONDS = 0.2, 0.5, 1.0
#: Seconds between two provisional rankings.
RANKING_SECONDS = 3.0


class Session:
    """The run that is shown."""

    def __init__(self, follower: Follower, host: Host | None, *, is_replay: bool = False) -> None:
        self.follower = follower
        self.host = host
        self.is_replay = is_replay
        self.is_pausing = False
        self.provisional: Decision | None = None
        self._ranked_seq, self._ranked_at = 0, -RANKING_SECONDS

    @classmethod
    def of(cls, run: Run, host: Host | None = None) -> Session:
        """Return the session of a stored run, whoever works on it."""
        return cls(Follower(run, Tail(run)), host)

    @classmethod
    def replay(cls, directory: str, speed: float) -> Session:
        """Return the session of a recorded run."""
        run = Run(pathlib.Path(directory))
        return cls(Follower(run, Recording(run, speed)), None, is_replay=True)

    @property
    def is_alive(self) -> bool:
        """Whether somebody works on the run."""
        if self.is_replay:
            return not self.follower.state.finished
        return self.host.is_running if self.host is not None else self.follower.run.is_active()

    @property
    def is_paused(self) -> bool:
        """Whether the run waits."""
        return self.host is not None and self.host.is_paused

    @property
    def is_over(self) -> bool:
        """Whether all that was planned is done."""
        return self.follower.state.finished

    @property
    def seconds_to_next_look(self) -> float:
        """How long the display may stand: long while calls are timed."""
        if not self.is_alive:
            return IDLE_SECONDS
        return (
            QUIET_SECONDS
            if len(self.follower.state.opened) > len(self.follower.state.closed)
            else TICK_SECONDS
        )

    def look(self) -> None:
        """Take in what is new."""
        self.follower.advance()
        if self.host is not None:
            self.host.look()
            self.is_pausing = self.is_pausing and not self.host.is_paused and self.host.is_running

    def failure_reason(self) -> str:
        """Return why the run stopped, if its process said so."""
        return self.host.failure_reason() if self.host is not None else ""

    def toggle_pause(self) -> bool:
        """Pause after the current section, or go on; say whether that is ours to do."""
        if self.host is None:
            return False
        self.is_pausing = not (self.host.is_paused or self.is_pausing)
        self.host.order("pause" if self.is_pausing else "go")
        return True

    def skip(self, arm: str) -> str:
        """Have an arm's process ended; return what the user should know about it."""
        plan, processes = self.follower.state.plan, self.follower.state.processes.get(arm, ())
        needed = (
            {REFERENCE}
            | {each.id for each in plan.arms if each is plan.baseline or each.duplicate_of}
            if plan
            else {REFERENCE}
        )
        if self.host is None or not self.host.is_running:
            return "this run belongs to another process, or is a recording"
        if arm in needed:
            return "everything is compared with it, so it cannot be skipped"
        if not processes or processes[-1].outcome is not None:
            return "it does not run now"
        self.host.order(f"skip {arm}")
        return f"skipping {arm}"

    def ranking(self, now: float) -> Callable[[], Decision] | None:
        """Return how to rank provisionally, for a thread; None when there is nothing new or the last ranking is fresh."""
        header, state = self.follower.header, self.follower.state
        if (
            not state.opened
            or state.seq == self._ranked_seq
            or now - self._ranked_at < RANKING_SECONDS
        ):
            return None
        self._ranked_seq, self._ranked_at = state.seq, now
        return lambda: judge(header, state)

    def lead(self, decision: Decision) -> None:
        """Take a provisional ranking."""
        self.provisional = decision

    def judge(self) -> Decision:
        """Decide from what there is."""
        return judge(self.follower.header, self.follower.state)
