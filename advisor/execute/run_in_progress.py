"""What the stages of a run share while it is executed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from advisor.domain.answer import Answer
from advisor.domain.question import Question
from advisor.domain.run_state import Header, RunState
from advisor.execute.recorder import Recorder
from advisor.probing.session import WorkerSession


@dataclasses.dataclass(frozen=True)
class RunInProgress:
    """The workers, the record and the rules of one run."""

    session: WorkerSession
    recorder: Recorder
    header: Header
    #: Seconds from an arbitrary origin.
    clock: Callable[[], float]
    #: Seconds of the run, and when the last build and race end, and the run, by `clock`; infinite
    #: without a limit.
    seconds: float
    races_end: float
    end: float
    #: Number of builds that may run at the same time.
    builds_at_once: int
    #: Returns the answer with what has been measured so far.
    evaluate: Callable[[RunState], Answer]

    @property
    def question(self) -> Question:
        return self.header.question

    @property
    def state(self) -> RunState:
        """The state of the run after its last event."""
        return self.recorder.state
