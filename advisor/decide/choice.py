"""The chosen arm, with everything that the advice on it is derived from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from advisor.domain.answer import UnmeasuredArm
from advisor.domain.catalogue import Catalogue
from advisor.domain.measurement import Measurement
from advisor.domain.question import Budget, Question, choose_next_budget
from advisor.domain.recommendation import Certainty
from advisor.domain.results import Results
from advisor.domain.run import Header
from advisor.domain.scores import ScoredArm
from probes.wire.shape import Shape


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """The chosen arm, the other arms, and how certain the choice is."""

    header: Header
    results: Results
    excluded: Sequence[UnmeasuredArm]
    #: All arms with a score, best first.
    scored: Sequence[ScoredArm]
    #: Those that meet the constraints.
    viable: Sequence[ScoredArm]
    arm: ScoredArm
    certainty: Certainty

    @property
    def question(self) -> Question:
        return self.header.question

    @property
    def catalogue(self) -> Catalogue:
        return self.header.catalogue

    @property
    def measurement(self) -> Measurement:
        """The measurement of the chosen arm."""
        return self.measurements[self.arm.arm]

    @property
    def measurements(self) -> dict[str, Measurement]:
        """The measurements by arm."""
        return {entry.arm: entry for entry in self.results.measurements}

    @property
    def unraced_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the question without a race that has enough rounds.

        Servers do not race.
        """
        if self.question.load is not None:
            return ()
        raced = {race.shape for race in self.results.races}
        return tuple(shape for shape in self.question.shapes if shape not in raced)

    @property
    def next_budget(self) -> Budget | None:
        """The budget of a further run; None where no budget makes more repetitions."""
        return choose_next_budget(
            self.catalogue.presets.budgets.values(),
            self.question.budget,
            made=self.results.repeats,
            needed=self.certainty.needed_repetitions,
        )
