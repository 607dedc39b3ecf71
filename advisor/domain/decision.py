"""Grades, scores and the recommendation.

The module is long because it declares the values of one tree and has hardly any functions.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import msgspec

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.measurement import VerdictKind
from advisor.domain.plan import Excluded
from advisor.domain.question import Question
from advisor.domain.rubric import Basis

Evidence = Literal["measured", "imported", "published", "declared"]
#: From the best evidence behind a decision to the worst.
Trust = Literal["A", "B", "C", "D"]


def lower_trust(one: Trust, other: Trust) -> Trust:
    """Return the trust that stands for less evidence."""
    return max(one, other, key=get_args(Trust).index)


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
    #: C is centred on 1, B on 2, A on 3; null in documents of early versions.
    grade: float | None = None
    #: The fact with the smallest grade.
    fact: str
    value: float | str | bool | int | None
    rule: str
    evidence: Evidence
    basis: Basis
    source: str
    to_next: tuple[TierGap, ...]
    why: str

    @property
    def graded(self) -> float:
        """The grade; the letter's number where a document has no grade."""
        return float(self.tier) if self.grade is None else self.grade


class ScoredArm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm with its grades and its score; the score is linear in the priorities."""

    arm: str
    workflow: str
    ratings: dict[str, Rating]
    score: float
    rank: int
    #: Constraints it fails, in words; an arm with any is listed but not recommended.
    failed_constraints: tuple[str, ...] = msgspec.field(name="fails")
    #: The places of these constraints in the question.
    failed_places: tuple[int, ...] = msgspec.field(name="failed", default=())
    speedup: float


#: Direction in which a weight changes.
Side = Literal["less", "more"]


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of one of the three Ps at which another arm takes the lead.

    The other two Ps keep their proportion.
    """

    criterion: str
    weight: float
    to: str
    #: Whether `to` leads below or above `weight`; the present weight can equal `weight` when two
    #: arms tie.
    when: Side


class ConstraintEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one constraint on the answer while the others hold."""

    constraint: str
    #: Arms that only this constraint excludes.
    bars: tuple[str, ...]
    #: Arm that would be recommended without it; null where the others exclude every arm.
    without: str | None
    changes_answer: bool


class BreakEven(msgspec.Struct, frozen=True, kw_only=True):
    """Requests after which the recommended arm's build has paid for itself against the baseline.

    Null for never or not bounded.
    """

    batch_size: int
    requests: float | None
    low: float | None
    high: float | None


class HorizonBest(msgspec.Struct, frozen=True, kw_only=True):
    """The arm that serves a number of requests first, its cold build included."""

    batch_size: int
    requests: int
    arm: str
    seconds: float


class RunningCost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of serving without builds, in the currency of `--price-per-hour`."""

    arm: str
    batch_size: int
    value: float
    unit: Literal["million tokens", "thousand requests"]


class MemoryFit(msgspec.Struct, frozen=True, kw_only=True):
    """Peak device memory of an arm, its builds included, as a share of the device's memory."""

    arm: str
    peak_bytes: int
    device_bytes: int
    #: Of the device's memory.
    share: float
    #: Whether memory was so scarce that the compiler may have skipped strategies.
    short: bool


class EnergyUse(msgspec.Struct, frozen=True, kw_only=True):
    """Energy of calls without a pause, by the device's counter."""

    arm: str
    batch_size: int
    joules_per_call: float
    #: Of a thousand requests.
    watt_hours: float


class TreeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One question of the handbook's decision tree with its answer."""

    question: str
    answer: bool


class TreeAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """A leaf that the handbook's decision tree leads to; an open question leads to several."""

    steps: tuple[TreeStep, ...]
    says: str
    workflows: tuple[str, ...]
    source: str


class GuidelineOpinion(msgspec.Struct, frozen=True, kw_only=True):
    """Published advice for these priorities, and whether the measurement agrees (null: unknown)."""

    id: str
    says: str
    workflows: tuple[str, ...]
    agrees: bool | None
    why: str
    source: str


#: Whether the measurements decide: one workflow leads, several are equally good, or neither.
DecisionWord = Literal["CLEAR", "EITHER", "OPEN"]
#: What a line of the headline is about.
HeadlinePart = Literal[
    "answer", "certainty", "change", "load", "weights", "accuracy", "batch-sizes"
]


class SpeedRegret(msgspec.Struct, frozen=True, kw_only=True):
    """Speed of the fastest measured arm divided by the speed of the advised arm."""

    #: The fastest measured arm; null where the advised one is.
    arm: str | None
    value: float
    #: Upper end of the 95 % range over all measured arms.
    high: float


class ScoreRegret(msgspec.Struct, frozen=True, kw_only=True):
    """Points of score lost if another workflow is really the best one."""

    expected: float
    #: Exceeded in 5 % of the draws.
    high: float


class BatchAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """The best arm by score at one batch size."""

    batch_size: int
    arm: str
    #: Its speed-up over the baseline there, and that of the arm advised for all batch sizes.
    speedup: float
    advised_speedup: float


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """The advice, how certain it is, and what would change it."""

    #: The answer in a few lines of text, the same in every output; empty in documents of early
    #: versions, like all that is about the certainty of the decision.
    headline: tuple[str, ...] = ()
    #: What each line of the headline is about; empty in documents of early versions.
    headline_parts: tuple[HeadlinePart, ...] = ()
    decision_word: DecisionWord | None = msgspec.field(name="decision", default=None)
    #: Share of draws from the measurements' uncertainty in which the advised workflow leads or is
    #: within the indifference of the rubric.
    certainty: float | None = None
    #: Seed of these draws.
    certainty_seed: int | None = None
    #: Workflows that lead or are within the indifference in at least 5 % of the draws, the advised
    #: one first.
    contenders: tuple[str, ...] = ()
    #: The share of these draws of each contender; several can be within the indifference in one.
    contender_shares: tuple[float, ...] = ()
    speed_regret: SpeedRegret | None = None
    score_regret: ScoreRegret | None = None
    #: Further seconds of measuring that would settle an open decision, from the present spread;
    #: null where none are needed or where only fresh processes can settle it.
    needed_seconds: float | None = None
    advice_by_batch_size: tuple[BatchAdvice, ...] = ()
    #: The first arm by rank whose outputs are exact: the advised one, or the one to use where its
    #: outputs are not exact enough; null where no arm is exact, and in early versions.
    best_exact: str | None = None
    #: The first arm by rank that has no quantised weights; null where none is viable, and in early
    #: versions.
    best_native: str | None = None

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
    """The origin of figures that were not measured for this question on this machine."""

    run: str
    created: str
    age_days: int
    device: str
    #: Of the machine that it was measured on.
    cpu: str
    kernel: str
    driver: str | None
    versions: dict[str, str]
    summary: str = msgspec.field(name="words")


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
