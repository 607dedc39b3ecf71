"""Add the headline to the advice, with the facts that it is written from."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.domain.model import has_random_weights, name_own_shapes
from advisor.domain.question import Question, WeightFormat
from advisor.domain.recommendation import Recommendation
from advisor.domain.workflow import Workflow
from advisor.recommendation.best_arms import find_best_exact, find_best_native, find_errors
from advisor.recommendation.choice import Choice
from advisor.recommendation.headline import write_headline
from advisor.recommendation.headline_facts import HeadlineFacts, arm_titles
from advisor.recommendation.load_lines import write_load_lines
from advisor.recommendation.speedup_draws import includes_processes


def add_headline(advice: Recommendation, choice: Choice) -> Recommendation:
    """Return the advice with the lines of the headline and the best arms that they name."""
    facts = _gather_facts(advice, choice)
    lines = write_headline(facts)
    return msgspec.structs.replace(
        advice,
        headline=tuple(line for _, line in lines),
        headline_parts=tuple(part for part, _ in lines),
        best_exact=next(iter(facts.best_exact), None),
        best_native=next(iter(facts.best_native), None),
    )


def _gather_facts(advice: Recommendation, choice: Choice) -> HeadlineFacts:
    scored, results, question = choice.scored, choice.results, choice.question
    workflows, indifference = choice.context.workflows, choice.context.rubric.indifference
    titles, formats = arm_titles(scored, workflows), _weight_formats(workflows)
    measurement = choice.measurement
    return HeadlineFacts(
        advised=choice.arm,
        speedup=measurement.speedup,
        has_process_differences=includes_processes(measurement),
        baseline=results.baseline,
        certainty=choice.certainty,
        indifference=indifference,
        arms={arm.arm: arm for arm in scored},
        titles=titles,
        flips=advice.flips,
        priorities=question.priorities,
        by_batch_size=advice.advice_by_batch_size,
        subject=choice.context.subject or question.model.name,
        checks=measurement.correctness,
        best_exact=find_best_exact(scored, results, indifference),
        errors=find_errors(results),
        weights=formats.get(advice.arm),
        best_native=find_best_native(scored, formats, indifference),
        has_random_weights=has_random_weights(question.model),
        noise_floor=results.noise_floor,
        first_to_finish=[entry for entry in advice.horizons if entry.requests == question.requests],
        load_lines=write_load_lines(advice.arm, results.serving, question.load, titles),
        repeats=results.repeats,
        next_budget=choice.next_budget,
        builds_left_out=sum(not build.started for build in results.stopped_builds),
        build_limits=_build_limits(question),
        own_shapes=name_own_shapes(question.model) if results.has_batch is False else "",
    )


def _build_limits(question: Question) -> list[str]:
    """Return the options of the question that leave builds out, as the user writes them."""
    limits = (("--requests", question.requests), ("--build-minutes", question.build_minutes))
    return [f"{option} {value:.15g}" for option, value in limits if value is not None]


def _weight_formats(workflows: Sequence[Workflow]) -> dict[str, WeightFormat]:
    """Return the formats of quantised weights by arm."""
    return {
        f"{workflow.id}/{option}": weights
        for workflow in workflows
        for option, weights in workflow.arm_weights.items()
    }
