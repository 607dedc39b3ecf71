"""Stage: measurements and declared facts -> tiers and scores, by the rubric's rules. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from advisor.domain.catalogue import Catalogue
from advisor.domain.decision import Rating, ScoredArm, TierGap
from advisor.domain.measurement import Measurement, Results, Survey
from advisor.domain.question import Constraint, Question
from advisor.domain.rubric import Condition, Criterion, Rubric, TierRule
from advisor.domain.workflow import Workflow
from advisor.score import architecture_survey, performance_portability

FactValue = float | str | bool | int | None


def score(results: Results, question: Question, catalogue: Catalogue) -> tuple[ScoredArm, ...]:
    """Return every measured arm with its tiers and score, best first; arms that fail a constraint come after those that do not."""
    workflows = {workflow.id: workflow for workflow in catalogue.workflows}
    fastest = max(
        (entry.speedup.low for entry in results.measurements if entry.speedup.low is not None),
        default=None,
    )
    scored = []
    for measurement in results.measurements:
        workflow = workflows[measurement.workflow].for_arm(measurement.option)
        surveyed = architecture_survey.find(results.surveys, measurement.workflow)
        facts = facts_of(measurement, workflow, fastest, surveyed)
        facts["performance_portability"] = performance_portability.find(
            results.portability, workflow
        )
        seen = measured_facts(measurement, fastest, surveyed)
        ratings = {
            criterion.id: rate(criterion, facts, catalogue.rubric, measured=seen)
            for criterion in catalogue.rubric.criteria
        }
        ratings = {name: _tell(name, rating, results, workflow) for name, rating in ratings.items()}
        scored.append(
            ScoredArm(
                arm=measurement.arm,
                workflow=measurement.workflow,
                ratings=ratings,
                score=round(
                    question.priorities.weigh(
                        {name: rating.tier for name, rating in ratings.items()}
                    ),
                    9,
                ),
                rank=0,
                fails=failed_constraints(ratings, question.constraints),
                speedup=measurement.speedup.value,
            )
        )
    return rank(scored)


def rank(scored: Sequence[ScoredArm]) -> tuple[ScoredArm, ...]:
    """Order by constraints met, score and measured speed, and number the places."""
    ordered = sorted(
        scored, key=lambda arm: (bool(arm.fails), -round(arm.score, 9), -arm.speedup, arm.arm)
    )
    return tuple(
        msgspec.structs.replace(arm, rank=place) for place, arm in enumerate(ordered, start=1)
    )


def facts_of(
    measurement: Measurement,
    workflow: Workflow,
    fastest: float | None,
    surveyed: Survey | None = None,
) -> dict[str, FactValue]:
    """Return the facts that rules may use; what was measured counts before what is declared."""
    return {
        "performance_portability": None,
        **declared_facts(workflow),
        **measured_facts(measurement, fastest, surveyed),
    }


def measured_facts(
    measurement: Measurement, fastest: float | None, surveyed: Survey | None = None
) -> dict[str, FactValue]:
    """Return the facts that this run has seen for itself; of new shapes and other models only where some were tried.

    `fastest` is the largest lower bound of a speed-up among all arms, None where none has a bound.
    """
    high = measurement.speedup.high
    seen: dict[str, FactValue] = {
        "speedup_low": measurement.speedup.low,
        "fastest_over_it": None if fastest is None or high is None else fastest / high,
        "cold_build_seconds": measurement.build_seconds.cold,
    }
    if measurement.new_shapes is not None:
        seen["new_shapes"] = measurement.new_shapes
    if surveyed is not None:
        seen["architectures"] = surveyed.architectures
    return seen


def _tell(criterion: str, rating: Rating, results: Results, workflow: Workflow) -> Rating:
    """Return the rating with what a survey or other platforms add to its sentence."""
    surveyed = architecture_survey.find(results.surveys, workflow.id)
    more = ""
    if rating.fact == "architectures" and surveyed is not None:
        more = architecture_survey.tell(surveyed)
    elif criterion == "portability":
        more = performance_portability.tell(results.portability, workflow)
    return msgspec.structs.replace(rating, why=f"{rating.why}; {more}") if more else rating


def declared_facts(workflow: Workflow) -> dict[str, FactValue]:
    """Return the facts that no measurement is needed for."""
    declared = workflow.declared
    return {
        "own_environment": workflow.environment.kind != "shared",
        "lines_changed": declared.lines_changed.value,
        "export_step": declared.export_step.value,
        "vendors": declared.vendors.value,
        "artefact_scope": declared.artefact_scope.value,
        "new_shapes": declared.new_shapes.value,
        "architectures": declared.architectures.value,
    }


def rate(
    criterion: Criterion,
    facts: Mapping[str, FactValue],
    rubric: Rubric,
    *,
    measured: Collection[str] = (),
) -> Rating:
    """Return the highest tier whose conditions all hold, with what the next one asks for; `measured` names the facts this run has seen."""
    place = next(
        place
        for place, rule in enumerate(criterion.tiers)
        if all(holds(condition, facts) for condition in rule.all)
    )
    reached = criterion.tiers[place]
    above = criterion.tiers[place - 1] if place else None
    unmet = [condition for condition in above.all if not holds(condition, facts)] if above else []
    known = [
        condition
        for condition in reached.all
        if facts[condition.fact] is not None or not condition.when_known
    ]
    deciding = (unmet or known or reached.all)[0]
    return Rating(
        tier=reached.tier,
        fact=deciding.fact,
        value=facts[deciding.fact],
        rule=describe_rule(reached),
        evidence="measured" if deciding.fact in measured else rubric.facts[deciding.fact].evidence,
        basis=reached.basis,
        source=reached.source,
        to_next=tuple(distance(condition, facts, above.tier) for condition in unmet)
        if above
        else (),
        why=reached.why,
    )


def holds(condition: Condition, facts: Mapping[str, FactValue]) -> bool:
    """Say whether the condition holds; a fact that is not known meets only conditions that count where it is known."""
    value = facts[condition.fact]
    if value is None:
        return condition.when_known
    if condition.is_one_of is not None:
        return value in condition.is_one_of
    if not isinstance(value, (int, float)):
        return False
    if condition.at_least is not None:
        return value >= condition.at_least
    return condition.at_most is not None and value <= condition.at_most


def distance(condition: Condition, facts: Mapping[str, FactValue], tier: int) -> TierGap:
    """Return how far a condition is from holding."""
    value = facts[condition.fact]
    bound = condition.at_least if condition.at_least is not None else condition.at_most
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and bound is not None
    return TierGap(
        tier=tier,
        fact=condition.fact,
        value=value,
        threshold=describe(condition),
        missing=abs(float(value) - float(bound)) if number else None,  # type: ignore[arg-type]
    )


def describe(condition: Condition) -> str:
    """Return the comparison in a few signs."""
    if condition.at_least is not None:
        return f">= {condition.at_least:g}"
    if condition.at_most is not None:
        return f"<= {condition.at_most:g}"
    return " or ".join(
        "yes" if value is True else "no" if value is False else str(value)
        for value in condition.is_one_of or ()
    )


def describe_rule(rule: TierRule) -> str:
    """Return all of a tier's conditions in one line."""
    return (
        ", ".join(f"{condition.fact} {describe(condition)}" for condition in rule.all)
        or "otherwise"
    )


def failed_constraints(
    ratings: Mapping[str, Rating], constraints: Sequence[Constraint]
) -> tuple[str, ...]:
    """Return the constraints that the ratings do not meet, in words."""
    return tuple(
        f"{constraint.criterion} is tier {ratings[constraint.criterion].tier}, {constraint.at_least} is required"
        for constraint in constraints
        if ratings[constraint.criterion].tier < constraint.at_least
    )
