"""From measurements to advice: tiers, scores, the recommendation."""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.domain.catalogue import Basis
from advisor.domain.measurement import VerdictKind

Evidence = Literal["measured", "imported", "published", "declared"]
Trust = Literal["A", "B", "C", "D"]


class Distance(msgspec.Struct, frozen=True, kw_only=True):
    """What the next tier asks for and is not met."""

    tier: int
    fact: str
    value: float | str | bool | int | None
    threshold: str
    #: How far a number is from its threshold, in the fact's unit; null for what is not a number.
    missing: float | None


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """One criterion of one arm."""

    tier: int
    #: The fact that decides: the value that kept the tier from being higher, else the first the tier rests on.
    fact: str
    value: float | str | bool | int | None
    rule: str
    evidence: Evidence
    basis: Basis
    source: str
    to_next: tuple[Distance, ...]
    why: str


class ScoredArm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm with its tiers and its score; the score is linear in the priorities."""

    arm: str
    workflow: str
    ratings: dict[str, Rating]
    score: float
    rank: int
    #: Constraints it fails, in words; an arm with any is listed but not recommended.
    fails: tuple[str, ...]
    speedup: float


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of one of the three Ps at which another arm takes the lead, the other two keeping their proportion."""

    criterion: str
    weight: float
    to: str


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """The advice."""

    arm: str
    workflow: str
    verdict: VerdictKind
    trust: Trust
    trust_reasons: tuple[str, ...]
    runner_up: str | None
    #: Lead in score over the runner-up.
    margin: float | None
    #: Arms that the advice could as well name: same score, and speeds that the measurement does not tell apart.
    ties: tuple[str, ...]
    flips: tuple[Flip, ...]
    reasons: tuple[str, ...]
    next_steps: tuple[str, ...]
