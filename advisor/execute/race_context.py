"""What every step of a race works with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from advisor.domain.answer import Answer
from advisor.domain.catalogue import VisitQualityLimits
from advisor.domain.question import Question
from advisor.domain.run_state import RunState
from advisor.execute.recorder import Recorder
from advisor.probing.session import Session


@dataclasses.dataclass(frozen=True)
class RaceContext:
    """The workers, the record and the rules of one run while it is measured."""

    session: Session
    recorder: Recorder
    question: Question
    limits: VisitQualityLimits
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
    def state(self) -> RunState:
        """The state of the run after its last event."""
        return self.recorder.state
