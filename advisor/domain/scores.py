"""Grades and scores of the arms."""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.domain.constraints import FailedConstraint
from advisor.domain.question import WeightFormat
from advisor.domain.rubric import Basis

Evidence = Literal["measured", "imported", "inferred", "published", "declared"]


class TierGap(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that keeps a criterion from the next letter."""

    tier: int
    fact: str
    value: float | str | bool | int | None
    threshold: str
    #: How far a number is from its threshold, in the fact's unit; null for what is not a number.
    missing: float | None


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """One criterion of one arm: a grade and its letter, and the fact that limits them."""

    #: The letter as a number: 3 is A, 2 is B, 1 is C.
    tier: int
    #: C is centred on 1, B on 2, A on 3.
    grade: float
    #: The fact with the smallest grade.
    fact: str
    value: float | str | bool | int | None
    rule: str
    evidence: Evidence
    basis: Basis
    source: str
    to_next: tuple[TierGap, ...]
    why: str


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """What a user has to change or install to adopt an arm, as the catalogue declares it."""

    #: Lines that eager PyTorch does not need.
    lines_changed: int
    export_step: bool
    own_environment: bool


class ScoredArm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm with its grades and its score; the score is linear in the priorities."""

    arm: str
    workflow: str
    #: What texts call the arm.
    title: str
    ratings: dict[str, Rating]
    score: float
    #: Points that the choice adds to the score, for speed or for needing no change.
    bonus: float = 0.0
    rank: int
    #: Constraints it fails; an arm with any is listed but not recommended.
    failures: tuple[FailedConstraint, ...] = ()
    speedup: float
    adoption: Adoption
    #: Format of its quantised weights; null for a native arm.
    weights: WeightFormat | None = None
    #: Devices on which p3-advisor has run the workflow.
    verified: tuple[str, ...] = ()
    #: Where its figures come from if they are published.
    origin: str = ""

    @property
    def failed_constraints(self) -> tuple[str, ...]:
        """The constraints it fails as texts."""
        return tuple(failure.text for failure in self.failures)

    @property
    def failed_indices(self) -> tuple[int, ...]:
        """The indices of these constraints in the question."""
        return tuple(failure.index for failure in self.failures)
