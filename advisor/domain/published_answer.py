"""An answer from published figures, for a GPU that is not attached."""

from __future__ import annotations

import math

import msgspec

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.plan import Excluded
from advisor.domain.question import Question
from advisor.domain.recommendation import Recommendation
from advisor.domain.scores import ScoredArm


class PublishedCase(msgspec.Struct, frozen=True, kw_only=True):
    """Published figures of one workflow on one GPU for one model."""

    workflow: str
    stack: str
    #: Speed-up over eager by batch size: least and most.
    speedups: dict[int, tuple[float, float]]
    #: Seconds of the compilation; None where none is published.
    compile_seconds: float | None
    sections: tuple[str, ...]
    #: Batch sizes for which two figures contradict each other.
    contradicts: tuple[int, ...]

    @property
    def low(self) -> float:
        """Return the geometric mean of the least speed-ups."""
        return math.exp(
            sum(math.log(low) for low, _ in self.speedups.values()) / len(self.speedups)
        )


class PublishedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer from published figures for a GPU that is not attached."""

    created: str
    #: Its `gpu` is the name that was asked for.
    question: Question
    machine: Machine
    catalogue: Catalogue
    cases: tuple[PublishedCase, ...]
    scored: tuple[ScoredArm, ...]
    failures: tuple[Excluded, ...]
    recommendation: Recommendation
