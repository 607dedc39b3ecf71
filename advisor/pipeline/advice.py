"""Score rated arms and recommend one: those of a run, or those that a document lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from advisor.domain.constraints import Constraint
from advisor.domain.machine import describe_device
from advisor.domain.model import short_name
from advisor.domain.plan import Excluded
from advisor.domain.priorities import Priorities
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import Results
from advisor.domain.run import Header
from advisor.domain.scores import ScoredArm
from advisor.errors import UserError
from advisor.recommendation.decision_context import DecisionContext
from advisor.recommendation.recommend import recommend
from advisor.score import scoring


@dataclasses.dataclass(frozen=True)
class Advice:
    """The scores of the arms, best first, and the recommendation.

    `problem` is the reason when there is no recommendation.
    """

    scored: tuple[ScoredArm, ...]
    recommendation: Recommendation | None
    problem: UserError | None


def with_preferences(
    header: Header, priorities: Priorities | None, constraints: tuple[Constraint, ...] | None
) -> Header:
    """Return the header with other priorities and constraints; None keeps those of the question."""
    question = header.question
    question = msgspec.structs.replace(
        question,
        priorities=question.priorities if priorities is None else priorities,
        constraints=question.constraints if constraints is None else constraints,
    )
    return msgspec.structs.replace(header, question=question)


def advise(
    header: Header,
    results: Results,
    rated: scoring.RatedArms,
    excluded: Sequence[Excluded],
    *,
    scope: str = "",
    while_running: bool = False,
) -> Advice:
    """Score the rated arms with the weights of the question, and recommend one if possible.

    `scope` follows model and device in the headline. With `while_running` equal workers may differ
    so far; see `recommend`.
    """
    scored = scoring.weigh_arms(rated.overall, header.question)
    context = _context_of(header, rated, scope)
    try:
        recommendation = recommend(
            results, scored, header.question, excluded, context, while_running=while_running
        )
    except UserError as problem:
        return Advice(scored, None, problem)
    return Advice(scored, recommendation, None)


def _context_of(header: Header, rated: scoring.RatedArms, scope: str) -> DecisionContext:
    """Return what the catalogue and the device add to the scores."""
    question, machine, catalogue = header.question, header.machine, header.catalogue
    gpu, count = machine.find_gpu(question.gpu), question.devices_per_model
    device = describe_device(machine.cpu, gpu, count)
    return DecisionContext(
        rubric=catalogue.rubric,
        by_batch_size=scoring.weigh_by_batch_size(rated, question),
        guidelines=catalogue.guidelines,
        tree=catalogue.tree,
        workflows=catalogue.workflows,
        budgets=tuple(catalogue.presets.budgets.values()),
        device_bytes=gpu.memory_bytes * count if gpu else None,
        subject=f"{short_name(question.model)} on {device}{scope}",
    )
