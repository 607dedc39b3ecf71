"""Grades: monotone functions from a fact to a number whose band is the letter.

C is centred on 1, B on 2 and A on 3; the bands meet at 1.5 and 2.5. The functions are data
(`criteria.toml`), so that the letter and the number cannot contradict each other.

Facts are the measured ones first, else those that the catalogue declares.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

import msgspec

from advisor.decide.intervals import Array, np
from advisor.domain.measurement import Measurement, NewShapeBehaviour
from advisor.domain.results import Evidence, Rating, TierGap
from advisor.domain.rubric import Criterion, GradeRule, Outside, Rubric
from advisor.domain.workflow import CitedFact, Workflow

FactValue = float | str | bool | int | None

#: Lowest grade of each letter, by its number.
BAND_STARTS = {3: 2.5, 2: 1.5}
LOWEST_TIER = 1
#: Grade of an unknown fact: below the centre of every letter, so that a missing figure never pays.
UNKNOWN = 0.0


def rounded(grade: float) -> float:
    """Return a grade or a score without the errors of its computation."""
    return round(grade, 9)


def grade_of(rule: GradeRule, value: FactValue) -> float:
    """Return the grade of a fact's value; an unknown or unforeseen value has the lowest grade."""
    if rule.values:
        key = str(value).lower() if isinstance(value, bool) else str(value)
        return rule.values.get(key, UNKNOWN)
    if isinstance(value, (bool, str)) or value is None or math.isnan(value):
        return UNKNOWN
    if rule.between == "log" and value <= 0:
        return rule.knots[0][1] if rule.below == "flat" else -math.inf
    return float(grades_at(rule, math.log(value) if rule.between == "log" else value))


def grades_at(rule: GradeRule, places: Array) -> Array:
    """Return the grades at places, which are logarithms where the rule interpolates in them."""
    scale = math.log if rule.between == "log" else float
    knots = np.array([scale(figure) for figure, _ in rule.knots])
    heights = np.array([grade for _, grade in rule.knots])
    if rule.between == "step":
        return heights[np.maximum(np.searchsorted(knots, places, side="right") - 1, 0)]
    return interpolate(places, knots, heights, below=rule.below, above=rule.above)


def interpolate(places: Array, xs: Array, ys: Array, *, below: Outside, above: Outside) -> Array:
    """Interpolate linearly; beyond the points a slope continues, or the last value does."""
    slopes = np.diff(ys) / np.diff(xs)
    found: Array = np.interp(places, xs, ys)
    if below == "extend":
        found = found + np.minimum(places - xs[0], 0.0) * slopes[0]
    if above == "extend":
        found = found + np.maximum(places - xs[-1], 0.0) * slopes[-1]
    return found


def figure_for(rule: GradeRule, grade: float) -> float | None:
    """Return the figure at which a rule with knots reaches `grade`; None where it never does."""
    if rule.between == "step":
        enough = [figure for figure, each in rule.knots if each >= grade]
        return None if not enough else enough[0] if is_rising(rule) else enough[-1]
    for (x0, y0), (x1, y1) in itertools.pairwise(rule.knots):
        if y0 != y1 and min(y0, y1) <= grade <= max(y0, y1):
            share = (grade - y0) / (y1 - y0)
            is_linear = rule.between == "linear"
            return x0 + (x1 - x0) * share if is_linear else float(x0 * (x1 / x0) ** share)
    return None


def is_rising(rule: GradeRule) -> bool:
    return rule.knots[-1][1] >= rule.knots[0][1]


def describe_threshold(rule: GradeRule, grade: float) -> str:
    """Return what the fact must be for `grade`: `>= 1.2`, `<= 120`, or the values that suffice."""
    if rule.values:
        names = {"true": "yes", "false": "no"}
        enough = [names.get(value, value) for value, each in rule.values.items() if each >= grade]
        return " or ".join(enough) or "not reachable"
    figure = figure_for(rule, grade)
    if figure is None:
        return "not reachable"
    if is_rising(rule):
        return f">= {figure:g}"
    if rule.between == "step":
        # A falling step keeps its grade until the next knot.
        return f"< {next((each for each, _ in rule.knots if each > figure), math.inf):g}"
    return f"<= {figure:g}"


def describe_rule(rule: GradeRule) -> str:
    """Return in one line where the letters of a fact begin: `speedup: A >= 1.2, B >= 1.05`."""
    bands = ", ".join(
        f"{letter} {describe_threshold(rule, BAND_STARTS[tier])}"
        for tier, letter in ((3, "A"), (2, "B"))
    )
    return f"{rule.fact}: {bands}"


@dataclasses.dataclass(frozen=True)
class ArmFacts:
    """Every fact about an arm, by name."""

    values: dict[str, FactValue]
    #: Evidence of the facts that are not only declared.
    evidence: dict[str, Evidence]


def rate(criterion: Criterion, arm_facts: ArmFacts, rubric: Rubric) -> Rating:
    """Return the criterion's grade, the smallest of the grades of its facts, and its letter.

    An unknown fact has the lowest grade unless its rule is optional.
    """
    facts = arm_facts.values
    known = [rule for rule in criterion.grades if facts[rule.fact] is not None or not rule.optional]
    grades = [(grade_of(rule, facts[rule.fact]), rule) for rule in known or criterion.grades]
    grade, limiting = min(grades, key=lambda pair: pair[0])
    grade = rounded(grade)
    tier = next((each for each, start in BAND_STARTS.items() if grade >= start), LOWEST_TIER)
    letter = next(each for each in criterion.tiers if each.tier == tier)
    return Rating(
        tier=tier,
        grade=grade,
        fact=limiting.fact,
        value=facts[limiting.fact],
        rule=describe_rule(limiting),
        evidence=arm_facts.evidence.get(limiting.fact, rubric.facts[limiting.fact].evidence),
        basis=limiting.basis,
        source=limiting.source,
        to_next=tuple(_gaps(tier + 1, [rule for _, rule in grades], facts)),
        why=letter.why,
    )


def _gaps(tier: int, rules: Sequence[GradeRule], facts: Mapping[str, FactValue]) -> list[TierGap]:
    """Return the gap of each fact to the letter `tier`; nothing above A."""
    start = BAND_STARTS.get(tier)
    if start is None:
        return []
    return [
        TierGap(
            tier=tier,
            fact=rule.fact,
            value=facts[rule.fact],
            threshold=describe_threshold(rule, start),
        )
        for rule in rules
        if rounded(grade_of(rule, facts[rule.fact])) < start
    ]


NEW_SHAPES_ORDER: tuple[str, ...] = get_args(NewShapeBehaviour)


def facts_of(
    measurement: Measurement,
    workflow: Workflow,
    evidence: Evidence = "measured",
    *,
    portability: float | None = None,
    inferred_new_shapes: str | None = None,
) -> ArmFacts:
    """Return every fact about an arm; a measured or inferred one replaces the declared one.

    `evidence` is that of the measurement.
    """
    measured = _measured_facts(measurement, workflow)
    facts = ArmFacts(
        {**declared_facts(workflow), "performance_portability": portability, **measured},
        dict.fromkeys(measured, evidence),
    )
    if inferred_new_shapes is not None:
        facts.values["new_shapes"], facts.evidence["new_shapes"] = inferred_new_shapes, "inferred"
    return facts


def _measured_facts(measurement: Measurement, workflow: Workflow) -> dict[str, FactValue]:
    new_shapes = _measured_new_shapes(measurement, str(workflow.declared.new_shapes.value))
    build = measurement.build_seconds
    measured: dict[str, FactValue] = {
        "speedup": measurement.speedup.value,
        # The sum over the batch sizes, which is not less, where the single builds are not known.
        "build_seconds": build.cold if build.worst is None else build.worst,
    }
    if new_shapes is not None:
        measured["new_shapes"] = new_shapes
    return measured


def _measured_new_shapes(measurement: Measurement, declared: str) -> str | None:
    """Return the measured behaviour for new shapes; None where the declared one counts.

    If a shape was left out, the worse of the two counts, because an unknown result must not raise
    a grade.
    """
    measured = measurement.new_shape_behaviour
    if measured is None or measurement.new_shapes_complete:
        return measured
    is_worse = NEW_SHAPES_ORDER.index(measured) >= NEW_SHAPES_ORDER.index(declared)
    return measured if is_worse else None


def declared_facts(workflow: Workflow) -> dict[str, FactValue]:
    declared = msgspec.structs.asdict(workflow.declared).items()
    cited = {name: each.value for name, each in declared if isinstance(each, CitedFact)}
    return {"own_environment": workflow.environment.kind != "shared", **cited}


def infer_new_shapes(arms: Iterable[tuple[Measurement, Workflow]]) -> dict[str, str]:
    """Return what arms that tried no new shapes probably do with them, by arm.

    It is what another arm of the workflow with the same declared behaviour did, where that is
    better: an arm should not fall behind its sibling only because the sibling was tried.
    """
    pairs = [(measured, str(workflow.declared.new_shapes.value)) for measured, workflow in arms]
    best: dict[tuple[str, str], str] = {}
    for measured, declared in pairs:
        found, key = _measured_new_shapes(measured, declared), (measured.workflow, declared)
        if found is not None:
            best[key] = min(found, best.get(key, declared), key=NEW_SHAPES_ORDER.index)
    return {
        measured.arm: best[measured.workflow, declared]
        for measured, declared in pairs
        if measured.new_shape_behaviour is None
        and best.get((measured.workflow, declared), declared) != declared
    }
