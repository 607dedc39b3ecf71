"""The criteria with the functions that grade a fact, and published advice."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Literal

import msgspec

from advisor.domain.constraints import CRITERIA
from advisor.domain.question import DeviceKind, Task
from advisor.domain.workflow import DeclaredFacts

Basis = Literal["paper", "ours"]
#: A letter as a number: 3 is A, 2 is B, 1 is C.
Tier = Annotated[int, msgspec.Meta(ge=1, le=3)]
#: Names of facts in a sentence, where they differ from the identifiers.
FACT_NAMES = {"build_seconds": "build seconds of the slowest batch size"}
#: Facts that follow from a workflow's entry or from a measurement, not from a declaration.
DERIVED_FACTS = {"speedup", "build_seconds", "own_environment", "performance_portability"}
#: Declared fields that no rule may use.
UNGRADED_FIELDS = {"licence", "looked_up"}
KNOWN_FACTS = {*DeclaredFacts.__struct_fields__, *DERIVED_FACTS} - UNGRADED_FIELDS
#: What a function does outside its first or last knot.
Outside = Literal["extend", "flat"]


def name_fact(fact: str) -> str:
    return FACT_NAMES.get(fact, fact.replace("_", " "))


class TierRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a letter stands for."""

    tier: Tier
    basis: Basis
    source: Annotated[str, msgspec.Meta(min_length=1)]
    why: Annotated[str, msgspec.Meta(min_length=1)]


class GradeRule(msgspec.Struct, frozen=True, kw_only=True):
    """A monotone function from one fact to a grade; C is centred on 1, B on 2, A on 3.

    A fact that is a number has `knots`, a fact that is a word or a truth value has `values`.
    """

    fact: str
    #: Pairs of figure and grade, figures rising.
    knots: tuple[tuple[float, float], ...] = ()
    #: `log`: linear in the logarithm of the figure; `linear`: in the figure itself; `step`: the
    #: grade of the last knot reached.
    between: Literal["log", "linear", "step"] = "log"
    below: Outside = "extend"
    above: Outside = "extend"
    #: Grades by value, truth values as `true` and `false`.
    values: dict[str, float] = {}
    #: Whether an unknown fact is left out; otherwise it has the grade 0.
    optional: bool = False
    basis: Basis
    source: Annotated[str, msgspec.Meta(min_length=1)]

    def __post_init__(self) -> None:
        if bool(self.knots) == bool(self.values):
            raise ValueError(f"the grade of {self.fact} needs either knots or values")
        figures = [figure for figure, _ in self.knots]
        grades = [grade for _, grade in self.knots]
        if not all(map(math.isfinite, (*figures, *grades, *self.values.values()))):
            raise ValueError(f"a grade of {self.fact} is not a finite number")
        if any(one >= two for one, two in itertools.pairwise(figures)):
            raise ValueError(f"the knots of {self.fact} must have rising figures")
        if sorted(grades) not in (grades, grades[::-1]):
            raise ValueError(f"the knots of {self.fact} are not monotone")
        if self.between == "log" and self.knots and (figures[0] <= 0 or len(figures) == 1):
            raise ValueError(f"the knots of {self.fact} need two figures above 0")
        if self.between == "linear" and len(figures) == 1:
            raise ValueError(f"the knots of {self.fact} need two figures")


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that grades may use; the vocabulary is closed."""

    unit: str
    evidence: Literal["measured", "declared"]
    meaning: str


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """One of the paper's five criteria: the grades of its facts, and what its letters stand for.

    The grade of a criterion is the smallest of the grades of its facts.
    """

    id: str
    title: str
    question: str
    grades: Annotated[tuple[GradeRule, ...], msgspec.Meta(min_length=1)]
    tiers: tuple[TierRule, ...]

    def __post_init__(self) -> None:
        if [rule.tier for rule in self.tiers] != [3, 2, 1]:
            raise ValueError(f"{self.id}: the tiers must be 3, 2, 1 in this order")


class DecisionRule(msgspec.Struct, frozen=True, kw_only=True):
    """How an arm is chosen from the scores, and when the choice is clear.

    Losses and bonuses are in points of score, the others are shares.
    """

    #: Largest losses that count as none, with which a choice is LIKELY, and with which it still is
    #: where the share of the draws without a loss reaches `likely_share`.
    negligible_loss: Annotated[float, msgspec.Meta(ge=0)]
    likely_loss: Annotated[float, msgspec.Meta(ge=0)]
    doubtful_loss: Annotated[float, msgspec.Meta(ge=0)]
    #: Shares of the draws without a loss that make a choice CLEAR, and may make it LIKELY.
    clear_share: Annotated[float, msgspec.Meta(gt=0.5, lt=1)]
    likely_share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    #: Share of the draws above which a workflow may lead, and is named as about as good; the most
    #: that are named.
    contender_share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    named_share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    most_named: Annotated[int, msgspec.Meta(ge=0)]
    #: Bonus of a speed-up, the factor from which it counts in full, and bonus of the baseline.
    speed_bonus: Annotated[float, msgspec.Meta(ge=0)]
    speed_bonus_at: Annotated[float, msgspec.Meta(gt=1)]
    baseline_bonus: Annotated[float, msgspec.Meta(ge=0)]
    #: Gain over the fastest measured arm that an arm without a measurement may have.
    outstanding_gain: Annotated[float, msgspec.Meta(ge=1)]
    #: Lead in speed from which another arm is named that is faster at one shape.
    faster_at_shape: Annotated[float, msgspec.Meta(ge=1)] = 1.2
    basis: Basis
    source: Annotated[str, msgspec.Meta(min_length=1)]


class Rubric(msgspec.Struct, frozen=True, kw_only=True):
    """The criteria, the facts that they use, and the rule of the decision."""

    name: str
    minimum_engaged_share: Annotated[float, msgspec.Meta(ge=0, le=1)]
    decision: DecisionRule
    facts: dict[str, Fact]
    criteria: tuple[Criterion, ...]

    def __post_init__(self) -> None:
        if sorted(each.id for each in self.criteria) != sorted(CRITERIA):
            raise ValueError(f"the criteria must be {', '.join(CRITERIA)}")
        graded = {rule.fact: each.id for each in self.criteria for rule in each.grades}
        if unknown := graded.keys() - self.facts.keys():
            fact, known = min(unknown), ", ".join(self.facts)
            raise ValueError(f"{graded[fact]}: unknown fact {fact!r}; valid facts: {known}")
        if unknown := self.facts.keys() - KNOWN_FACTS:
            raise ValueError(f"unknown facts: {', '.join(sorted(unknown))}")


class Guideline(msgspec.Struct, frozen=True, kw_only=True):
    """Published advice: the questions it applies to and the workflows it recommends."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    says: Annotated[str, msgspec.Meta(min_length=1)]
    workflows: tuple[str, ...]
    tasks: tuple[Task, ...]
    devices: tuple[DeviceKind, ...]
    #: The criterion that must have a weight of at least `at_least` percent; null for advice that
    #: holds for any weights.
    criterion: Literal["performance", "productivity", "portability"] | None = None
    at_least: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0
    basis: Literal["paper", "handbook"]
    source: Annotated[str, msgspec.Meta(min_length=1)]
