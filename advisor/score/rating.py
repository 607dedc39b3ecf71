"""Grade one criterion by its facts, and state what is missing to the next letter. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.rubric import Criterion, GradeRule, Rubric
from advisor.domain.scores import Evidence, Rating, TierGap
from advisor.score.grades import (
    BAND_STARTS,
    DIGITS,
    FactValue,
    describe_rule,
    describe_threshold,
    figure_for,
    grade_of,
    tier_of,
)


def rate(
    criterion: Criterion,
    facts: Mapping[str, FactValue],
    rubric: Rubric,
    evidence: Mapping[str, Evidence] | None = None,
    *,
    skip_unknown: bool = False,
) -> Rating:
    """Return the criterion's grade, the smallest of the grades of its facts, and its letter.

    `evidence` has the facts that are not only declared or published. An unknown fact has the lowest
    grade unless its rule is optional or `skip_unknown` is set.
    """
    known = [
        rule
        for rule in criterion.grades
        if facts[rule.fact] is not None or not (rule.optional or skip_unknown)
    ]
    grades = [(grade_of(rule, facts[rule.fact]), rule) for rule in known or criterion.grades]
    grade, limiting = min(grades, key=lambda pair: pair[0])
    tier = tier_of(grade)
    letter = next(each for each in criterion.tiers if each.tier == tier)
    return Rating(
        tier=tier,
        grade=round(grade, DIGITS),
        fact=limiting.fact,
        value=facts[limiting.fact],
        rule=describe_rule(limiting),
        evidence=(evidence or {}).get(limiting.fact, rubric.facts[limiting.fact].evidence),
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
        _gap(tier, rule, facts[rule.fact], start)
        for rule in rules
        if round(grade_of(rule, facts[rule.fact]), DIGITS) < start
    ]


def _gap(tier: int, rule: GradeRule, value: FactValue, start: float) -> TierGap:
    figure = figure_for(rule, start) if rule.knots else None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return TierGap(
        tier=tier,
        fact=rule.fact,
        value=value,
        threshold=describe_threshold(rule, start),
        missing=abs(float(value) - figure) if is_number and figure is not None else None,  # type: ignore[arg-type]
    )
