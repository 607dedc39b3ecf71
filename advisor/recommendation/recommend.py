"""Make the recommendation from the scores: the last step of a decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from advisor.domain.plan import Excluded
from advisor.domain.question import Question
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import EQUIVALENCE_MARGIN, Results, VerdictKind
from advisor.domain.scores import ScoredArm
from advisor.recommendation import certainty, costs, guidelines, sensitivity, trust
from advisor.recommendation.certainty import Certainty
from advisor.recommendation.decision_context import DecisionContext
from advisor.recommendation.flips import SAME_SCORE, find_flips
from advisor.recommendation.headline_advice import add_headline
from advisor.recommendation.no_answer import machine_unfit, nothing_viable
from advisor.recommendation.reasons import (
    explain_constraints,
    explain_horizon,
    explain_memory,
    explain_precision,
    give_deployment_steps,
    give_next_steps,
    give_reasons,
)
from advisor.statistics.intervals import geometric_mean_interval

#: Verdicts from the strongest to the weakest; the weakest of the batch sizes counts.
STRENGTH: tuple[VerdictKind, ...] = ("PROVEN", "TIE", "SAFE", "INCONCLUSIVE")


def recommend(
    results: Results,
    scored: Sequence[ScoredArm],
    question: Question,
    excluded: Sequence[Excluded],
    context: DecisionContext,
    *,
    while_running: bool = False,
) -> Recommendation:
    """Return the advice.

    Raise `NothingViableError` when nothing was measured or every arm fails a constraint, and
    `MachineUnfitError` when the decision is open because the machine was not fit to measure on.
    With `while_running` the latter is raised only for a busy machine: if equal workers differ, more
    rounds and processes may still settle the decision.
    """
    viable = [arm for arm in scored if not arm.failed_constraints]
    if not viable:
        raise nothing_viable(scored, question.constraints, results.measurements)
    found = certainty.assess(
        viable, scored, results, question.priorities, context.rubric, seed=question.seed
    )
    is_unfit = trust.is_busy if while_running else trust.is_unfit
    if found.decision_word == "OPEN" and is_unfit(results):
        raise machine_unfit(results)
    missing = find_missing(results, question)
    grade, trust_reasons = trust.grade(results, found.decision_word, missing)
    winner = next(arm for arm in viable if arm.arm == found.arm)
    simplex = sensitivity.leading_shares(viable, question.priorities)
    ties = tuple(arm.arm for arm in viable if arm is not winner and is_tie(winner, arm, results))
    measurements = {entry.arm: entry for entry in results.measurements}
    advice = Recommendation(
        arm=winner.arm,
        workflow=winner.workflow,
        verdict=_weakest_verdict(results, missing),
        trust=grade,
        trust_reasons=trust_reasons,
        ties=ties,
        flips=find_flips(viable, question.priorities),
        simplex_share=simplex[winner.arm],
        simplex=simplex,
        pareto=sensitivity.find_pareto(viable, measurements),
        reasons=(),
        next_steps=tuple(
            give_next_steps(
                grade,
                excluded,
                results.stopped_builds,
                context.workflows,
                context.next_budget(results, question, found.needed_repetitions or 0),
            )
        ),
        **_runner_up(winner, viable),
    )
    advice = _add_certainty(advice, found, question)
    advice = _add_costs(advice, viable, results, question, context)
    advice = _add_published_advice(advice, scored, question, excluded, context)
    advice = _add_reasons(advice, winner, results, question, context)
    return add_headline(advice, scored, results, question, context, found)


def find_missing(results: Results, question: Question) -> tuple[int, ...]:
    """Return the batch sizes of the question without a race that has enough rounds.

    Servers do not race.
    """
    raced = {race.batch_size for race in results.races}
    if question.load is not None:
        return ()
    return tuple(size for size in question.batch_sizes if size not in raced)


def _weakest_verdict(results: Results, missing: Sequence[int]) -> VerdictKind:
    if missing:
        return "INCONCLUSIVE"
    verdicts = [race.verdict for race in results.races]
    return max(verdicts, key=STRENGTH.index, default="INCONCLUSIVE")


def _runner_up(winner: ScoredArm, viable: Sequence[ScoredArm]) -> dict[str, Any]:
    """Return the best arm of another workflow, else the next arm, and the lead over it."""
    others = [arm for arm in viable if arm is not winner]
    runner_up = next((arm for arm in others if arm.workflow != winner.workflow), None)
    runner_up = runner_up or next(iter(others), None)
    if runner_up is None:
        return {"runner_up": None, "margin": None}
    return {"runner_up": runner_up.arm, "margin": winner.score - runner_up.score}


def _add_certainty(advice: Recommendation, found: Certainty, question: Question) -> Recommendation:
    return msgspec.structs.replace(
        advice,
        decision_word=found.decision_word,
        certainty=found.certainty,
        certainty_seed=question.seed,
        contenders=found.contenders,
        contender_shares=found.contender_shares,
        speed_regret=found.speed_regret,
        score_regret=found.score_regret,
        needed_repetitions=found.needed_repetitions,
    )


def _add_costs(
    advice: Recommendation,
    viable: Sequence[ScoredArm],
    results: Results,
    question: Question,
    context: DecisionContext,
) -> Recommendation:
    """Return the advice with break-even, horizons, running costs, memory and energy."""
    measurements = {entry.arm: entry for entry in results.measurements}
    candidates = [measurements[arm.arm] for arm in viable]
    measurement, baseline = measurements[advice.arm], measurements.get(results.baseline)
    paid_after = (
        costs.find_break_even(measurement, baseline)
        if baseline is not None and baseline is not measurement
        else ()
    )
    return msgspec.structs.replace(
        advice,
        break_even_requests=costs.worst_break_even(paid_after),
        break_even=paid_after,
        horizons=costs.find_horizons(candidates, question.requests),
        costs=costs.price(candidates, question.price_of_all_devices),
        memory=costs.fit_memory(candidates, context.device_bytes),
        energy=costs.energy_use(results.sustained),
    )


def _add_published_advice(
    advice: Recommendation,
    scored: Sequence[ScoredArm],
    question: Question,
    excluded: Sequence[Excluded],
    context: DecisionContext,
) -> Recommendation:
    """Return the advice next to what the paper and the handbook advise for the question."""
    guideline = guidelines.choose_guideline(context.guidelines, question)
    winner = next(arm for arm in scored if arm.arm == advice.arm)
    return msgspec.structs.replace(
        advice,
        guideline=guidelines.compare_with_guideline(guideline, winner, scored, excluded)
        if guideline
        else None,
        tree=guidelines.follow_tree(context.tree, question, scored) if context.tree else (),
        constraints=sensitivity.constraint_effects(scored, question.constraints, advice.arm),
    )


def _add_reasons(
    advice: Recommendation,
    winner: ScoredArm,
    results: Results,
    question: Question,
    context: DecisionContext,
) -> Recommendation:
    measurement = next(entry for entry in results.measurements if entry.arm == winner.arm)
    keep = next(
        (each.deployment_steps for each in context.workflows if each.id == winner.workflow), ()
    )
    missing = find_missing(results, question)
    return msgspec.structs.replace(
        advice,
        reasons=(
            *give_reasons(winner, measurement, results, question.priorities, advice.ties, missing),
            *explain_horizon(advice.horizons, question.requests),
            *explain_constraints(advice.constraints),
            *explain_memory(advice.memory, winner.arm),
            *explain_precision(results.measurements, question.dtype),
        ),
        next_steps=(*give_deployment_steps(measurement, keep), *advice.next_steps),
    )


def is_tie(winner: ScoredArm, other: ScoredArm, results: Results) -> bool:
    """Return whether score and speed of two arms are the same within the margin."""
    if abs(winner.score - other.score) > SAME_SCORE:
        return False
    margin = math.log1p(max(EQUIVALENCE_MARGIN, results.noise_floor or 0.0))
    ours = results.log_speedups.get(winner.arm, {})
    theirs = results.log_speedups.get(other.arm, {})
    pairs = [
        [one - two for one, two in zip(ours[size], theirs[size], strict=False)]
        for size in ours
        if ours[size] and theirs.get(size)
    ]
    return bool(pairs) and abs(geometric_mean_interval(pairs, 0.95).value) <= margin
