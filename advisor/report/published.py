"""The document of an answer that rests on published figures: the same keys as a run's, with nothing said to be measured."""

from __future__ import annotations

import msgspec

import advisor
from advisor.domain.decision import PublishedAnswer, PublishedCase, Rating, ScoredArm
from advisor.domain.measurement import Interval
from advisor.report.document import (
    PUBLISHED,
    SCHEMA,
    MachineEntry,
    RunDocument,
    ScoreEntry,
    WorkflowEntry,
)


def compose(answer: PublishedAnswer, again: str) -> RunDocument:
    """Put the document together; workflows by rank, then those that the paper could not run.

    `again` is the command that asks for it.
    """
    machine, cases = answer.machine, {case.workflow: case for case in answer.cases}
    failed = [
        WorkflowEntry(
            id=left.workflow,
            options=None,
            arm=left.workflow,
            status=left.status,
            reason=left.reason,
            evidence="published",
        )
        for left in answer.failures
    ]
    return RunDocument(
        schema=SCHEMA,
        run_id=PUBLISHED,
        created=answer.created,
        advisor_version=advisor.__version__,
        rubric=answer.catalogue.rubric.name,
        finished=True,
        question=answer.question,
        machine=MachineEntry(
            gpu=machine.gpus,
            gpu_problem=machine.gpu_problem,
            cpu=machine.cpu,
            kernel=machine.kernel,
            software=machine.software,
        ),
        workflows=(*(_entry(arm, cases[arm.workflow]) for arm in answer.scored), *failed),
        race=None,
        recommendation=answer.recommendation,
        problem=None,
        again=again,
    )


def _entry(arm: ScoredArm, case: PublishedCase) -> WorkflowEntry:
    return WorkflowEntry(
        id=arm.workflow,
        options=None,
        arm=arm.arm,
        status="excluded",
        reason=f"not measured: published figures of {case.stack}, section {', '.join(case.sections)}",
        evidence="published",
        speedup=Interval(value=case.low, low=None, high=None),
        scores={name: _rating(rating) for name, rating in arm.ratings.items()},
        fails=arm.fails,
        score=arm.score,
        rank=arm.rank,
    )


def _rating(rating: Rating) -> ScoreEntry:
    return msgspec.convert(
        {**msgspec.structs.asdict(rating), "to_next": rating.to_next or None},
        ScoreEntry,
        from_attributes=True,
    )
