"""Compose the JSON document of an answer from published figures, with the keys of a run's."""

from __future__ import annotations

import msgspec

from advisor.domain.interval import Interval
from advisor.domain.plan import Excluded
from advisor.domain.published_answer import PublishedAnswer, PublishedCase
from advisor.domain.scores import ScoredArm
from advisor.report.documents.document import PUBLISHED, SCHEMA, MachineEntry, RunDocument
from advisor.report.documents.measured_document import title_of
from advisor.report.documents.workflow_entry import ScoreEntry, WorkflowEntry
from advisor.version import __version__


def compose(answer: PublishedAnswer, rerun_command: str) -> RunDocument:
    """Return the document: workflows by rank, then those that the paper could not run."""
    cases = {case.workflow: case for case in answer.cases}
    workflows = {workflow.id: workflow for workflow in answer.catalogue.workflows}
    entries = (
        *(_scored_entry(arm, cases[arm.workflow]) for arm in answer.scored),
        *map(_failed_entry, answer.failures),
    )
    return RunDocument(
        schema=SCHEMA,
        run_id=PUBLISHED,
        created=answer.created,
        advisor_version=__version__,
        rubric=answer.catalogue.rubric.name,
        finished=True,
        question=answer.question,
        machine=MachineEntry.of(answer.machine),
        workflows=tuple(
            msgspec.structs.replace(entry, title=title_of(entry, workflows)) for entry in entries
        ),
        race=None,
        recommendation=answer.recommendation,
        problem=None,
        rerun_command=rerun_command,
    )


def _scored_entry(arm: ScoredArm, case: PublishedCase) -> WorkflowEntry:
    sections = ", ".join(case.sections)
    return WorkflowEntry(
        id=arm.workflow,
        options=None,
        arm=arm.arm,
        status="excluded",
        reason=f"not measured: published figures of {case.stack}, section {sections}",
        evidence="published",
        speedup=Interval(value=case.low, low=None, high=None),
        scores={name: ScoreEntry.of(rating) for name, rating in arm.ratings.items()},
        failed_constraints=arm.failed_constraints,
        score=arm.score,
        rank=arm.rank,
    )


def _failed_entry(failure: Excluded) -> WorkflowEntry:
    return WorkflowEntry(
        id=failure.workflow,
        options=None,
        arm=failure.workflow,
        status=failure.status,
        reason=failure.reason,
        evidence="published",
    )
