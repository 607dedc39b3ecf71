"""The recommendation: the advice, the decision, and what would change it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.domain.measurement import Interval
from advisor.domain.question import Budget
from probes.shape import Shape

#: Grades of the evidence behind a decision, best first, so the greater of two is the lower trust.
Trust = Literal["A", "B", "C", "D"]
#: What lowers the trust; the figures are those of the results. A fault of `Lacking` costs a grade,
#: and all disturbances and what was unsteady together cost one.
Lacking = Literal["unchecked", "not-repeated", "processes-assumed", "gain-in-doubt"]
Disturbance = Literal["noise", "discarded", "busy"]
Unsteady = Literal["noise-unknown", "stalled", "contradictory", "not-sustained", "shifted", "cold"]
TrustFault = Literal["imported", "open", "not-measured", Lacking, Disturbance, Unsteady]

#: Direction in which a weight changes.
Side = Literal["less", "more"]


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of one of the three Ps at which the answer changes to another arm.

    The other two Ps keep their proportion.
    """

    criterion: str
    weight: float
    to: str
    #: Whether `to` is advised below or above `weight`; the present weight can equal `weight` when
    #: two arms tie.
    when: Side


class ConstraintEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one constraint on the answer while the others hold."""

    constraint: str
    #: Arm that would be recommended without it; null where the others exclude every arm.
    without: str | None


class BreakEven(msgspec.Struct, frozen=True, kw_only=True):
    """Requests after which the recommended arm's build has paid for itself against the baseline.

    Null for never or not bounded.
    """

    shape: Shape
    requests: float | None
    low: float | None
    high: float | None


class RunningCost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of serving without builds, in the currency of `--price-per-hour`."""

    arm: str
    shape: Shape
    value: float
    unit: Literal["million tokens", "thousand requests"]


class GuidelineOpinion(msgspec.Struct, frozen=True, kw_only=True):
    """Published advice for these priorities, and whether the measurement agrees (null: unknown)."""

    id: str
    says: str
    workflows: tuple[str, ...]
    agrees: bool | None
    source: str


#: Whether the measurements decide: surely, probably, or not yet.
DecisionWord = Literal["CLEAR", "LIKELY", "OPEN"]
#: Why an arm is advised: it has the highest score, or nearly so and is faster, is exact where the
#: first is not, or is the baseline.
ChosenFor = Literal["score", "speed", "exactness", "no-change"]


class SpeedRegret(msgspec.Struct, frozen=True, kw_only=True):
    """Speed of the fastest measured arm divided by the speed of the advised arm."""

    #: The fastest measured arm; null where the advised one is.
    arm: str | None
    value: float
    #: Upper end of the 95 % range over all measured arms.
    high: float


class ShapeAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """The best arm by score at one shape, and the fastest one where the figures show its lead."""

    shape: Shape
    arm: str
    #: Its speed-up over the baseline there, and that of the arm advised for all shapes.
    speedup: float
    advised_speedup: float
    #: The fastest arm there, with its speed relative to that of the advised arm; null unless the
    #: interval shows that it is faster, and by at least `faster_at_shape` of the rubric.
    fastest: str | None = None
    fastest_ratio: Interval | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the measurements decide, by draws from their uncertainty."""

    #: Null with one arm, which is compared with nothing.
    word: DecisionWord | None
    #: Share of the draws in which the advised arm loses at most 0.1 points of score.
    certainty: float
    certain: Annotated[
        bool,
        msgspec.Meta(description="whether `certainty` is enough for CLEAR; false without a word"),
    ] = True
    seed: int
    chosen_for: ChosenFor
    #: False if the machine was busy or unsteady; the decision is then never CLEAR, unless
    #: performance has no weight.
    fit: bool = True
    #: Arms that may lead and were timed in one process alone; not CLEAR with any either.
    timed_once: tuple[str, ...] = ()
    #: False where not all outputs of the advised arm could be compared; not CLEAR either.
    checked: bool = True
    #: True where the advised arm may gain nothing, by the lower bound of its speed-up, or so little
    #: that its letter is that of no gain, and the baseline is about as good.
    gains_little: bool = False
    #: Arms that timed out or were not reached, and might lead; the decision is not CLEAR with any.
    outstanding: tuple[str, ...] = ()
    #: Arms that lose at most 0.1 points in over 5 % of the draws, with their share, the advised
    #: one first: the best of each workflow, and the baseline. One draw can have several of them.
    contenders: dict[str, float]
    #: Contenders that are about as good as the advised arm, the likeliest first.
    as_good: tuple[str, ...]
    #: Other arms of the advised workflow that are about as good.
    options_as_good: tuple[str, ...] = ()
    #: Points of score that are lost if another arm is really the best; few draws exceed them.
    lost_score: float
    #: The lost score as a share of speed, which costs as much. Null where performance has no
    #: weight, and where no rival can be so much faster.
    lost_speed: float | None
    speed_regret: SpeedRegret
    #: Further repetitions in fresh processes after which the decision would be clear, from the
    #: present spread; null where none are needed and where 16 would not be enough.
    needed_repetitions: int | None


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """The advice, how certain it is, and what would change it."""

    decision: Decision
    #: The budget of a further run; null where no budget makes more repetitions.
    next_budget: Budget | None = None
    advice_by_shape: tuple[ShapeAdvice, ...] = ()
    #: The first arm by rank whose outputs are exact: the advised one, or the one to use where its
    #: outputs are not exact enough; null where no arm is exact.
    best_exact: str | None = None
    #: The first arm by rank that has no quantised weights; null where none is viable.
    best_native: str | None = None
    #: Whether float32 was asked for on a GPU that has TF32, which was not tried.
    can_try_tf32: bool = False
    arm: str
    workflow: str
    trust: Trust
    #: What keeps the trust from being higher; those that alone cause a D come first.
    trust_faults: tuple[TrustFault, ...] = ()
    #: The speed-up in question: of the arm, or one that none has over an advised baseline.
    gain: float = 1.0
    runner_up: str | None
    #: Lead in score over the runner-up.
    margin: float | None
    flips: tuple[Flip, ...]
    #: Share of all weights of the three Ps at which an arm that meets the constraints leads.
    leading_shares: dict[str, float] = {}
    #: Empty for the baseline.
    break_even: tuple[BreakEven, ...] = ()
    #: The arm that serves the asked number of requests first at each shape, cold build included.
    first_to_serve: dict[str, str] = {}
    costs: tuple[RunningCost, ...] = ()
    constraints: tuple[ConstraintEffect, ...] = ()
    guideline: GuidelineOpinion | None = None
    #: What keeps the builds of the arm, and the arms that are not installed, with the environment
    #: to create for them; empty without one.
    deployment_steps: tuple[str, ...] = ()
    not_installed: dict[str, str] = {}

    def bounds_of(self, flip: Flip) -> tuple[float, float]:
        """Return the weights from which and up to which the arm of a flip is advised."""
        side = [
            other.weight
            for other in self.flips
            if (other.criterion, other.when) == (flip.criterion, flip.when)
        ]
        if flip.when == "less":
            return max((each for each in side if each < flip.weight), default=0.0), flip.weight
        return flip.weight, min((each for each in side if each > flip.weight), default=100.0)
