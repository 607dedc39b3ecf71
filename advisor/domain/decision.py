"""From measurements to advice: tiers, scores, the recommendation."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.measurement import VerdictKind
from advisor.domain.plan import Excluded
from advisor.domain.question import Question
from advisor.domain.rubric import Basis

Evidence = Literal["measured", "imported", "published", "declared"]
Trust = Literal["A", "B", "C", "D"]


class TierGap(msgspec.Struct, frozen=True, kw_only=True):
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
    #: The fact that decides: the value that kept the tier from being higher, else the first the
    #: tier rests on.
    fact: str
    value: float | str | bool | int | None
    rule: str
    evidence: Evidence
    basis: Basis
    source: str
    to_next: tuple[TierGap, ...]
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


#: Of a weight.
Side = Literal["less", "more"]


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of one of the three Ps at which another arm takes the lead, the other two keeping their proportion."""

    criterion: str
    weight: float
    to: str
    #: On which side of `weight` it leads; the present weight may be on neither, where arms score
    #: the same.
    when: Side


class ConstraintEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What one constraint does to the answer while the others hold."""

    constraint: str
    #: Arms that this constraint alone bars.
    bars: tuple[str, ...]
    #: Arm that would be recommended without it; null where the other constraints bar everything.
    without: str | None
    changes_answer: bool


class BreakEven(msgspec.Struct, frozen=True, kw_only=True):
    """Requests after which the recommended arm's build has paid for itself against the baseline; null for never or not bounded."""

    batch_size: int
    requests: float | None
    low: float | None
    high: float | None


class HorizonBest(msgspec.Struct, frozen=True, kw_only=True):
    """The arm that has served so many requests first, its cold build counted."""

    batch_size: int
    requests: int
    arm: str
    seconds: float


class RunningCost(msgspec.Struct, frozen=True, kw_only=True):
    """What serving costs, in the currency of `--price-per-hour`; builds are not in it."""

    arm: str
    batch_size: int
    value: float
    unit: Literal["million tokens", "thousand requests"]


class MemoryFit(msgspec.Struct, frozen=True, kw_only=True):
    """Peak device memory of an arm, its builds included, against what the device has."""

    arm: str
    peak_bytes: int
    device_bytes: int
    #: Of the device's memory.
    share: float
    #: True when little was left: compilers then skip strategies, and what was built may not be the
    #: best they can.
    short: bool


class EnergyUse(msgspec.Struct, frozen=True, kw_only=True):
    """Energy of serving, by the device's own counter, while the arm was called without a pause."""

    arm: str
    batch_size: int
    joules_per_call: float
    #: Of a thousand requests.
    watt_hours: float


class TreeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One question on the way through the handbook's decision tree, and the answer on this way."""

    question: str
    answer: bool


class TreeAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """One place where the handbook's decision tree leads; there are several where a question on the way is open."""

    steps: tuple[TreeStep, ...]
    says: str
    workflows: tuple[str, ...]
    source: str


class GuidelineOpinion(msgspec.Struct, frozen=True, kw_only=True):
    """What published advice says for these priorities, and whether the measurement agrees; null where it could not tell."""

    id: str
    says: str
    workflows: tuple[str, ...]
    agrees: bool | None
    why: str
    source: str


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
    #: Arms that the advice could as well name: same score, and speeds that the measurement does not
    #: tell apart.
    ties: tuple[str, ...]
    flips: tuple[Flip, ...]
    #: Share of all weights of the three Ps at which the arm leads, and the same for every arm that
    #: meets the constraints.
    simplex_share: float | None = None
    simplex: dict[str, float] = {}
    pareto: tuple[str, ...] | None = None
    #: Requests that suffice at every batch size; null for the baseline, and where the build never
    #: pays.
    break_even_requests: float | None = None
    break_even: tuple[BreakEven, ...] = ()
    horizons: tuple[HorizonBest, ...] = ()
    costs: tuple[RunningCost, ...] = ()
    constraints: tuple[ConstraintEffect, ...] = ()
    guideline: GuidelineOpinion | None = None
    memory: tuple[MemoryFit, ...] = ()
    energy: tuple[EnergyUse, ...] = ()
    tree: tuple[TreeAdvice, ...] = ()
    reasons: tuple[str, ...]
    next_steps: tuple[str, ...]


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where the figures come from when they were not measured for this question, here and now."""

    run: str
    created: str
    age_days: int
    device: str
    #: Of the machine that it was measured on.
    cpu: str
    kernel: str
    driver: str | None
    versions: dict[str, str]
    words: str


class PublishedCase(msgspec.Struct, frozen=True, kw_only=True):
    """What was published about one workflow on one GPU for one model."""

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
    """What published figures give for a GPU that is not attached."""

    created: str
    #: Its `gpu` is the name that was asked for.
    question: Question
    machine: Machine
    catalogue: Catalogue
    cases: tuple[PublishedCase, ...]
    scored: tuple[ScoredArm, ...]
    failures: tuple[Excluded, ...]
    recommendation: Recommendation
