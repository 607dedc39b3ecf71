"""A run's JSON document decided again: its figures with other weights, constraints or rubric.

The document has every figure that a decision needs but the single times, so no ties are found. What
is declared about the workflows comes from the catalogue.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import Constraint
from advisor.domain.measurement import Cell
from advisor.domain.plan import Excluded
from advisor.domain.priorities import Priorities
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import Results
from advisor.domain.run import SCHEMA, Header
from advisor.domain.scores import ScoredArm
from advisor.measure.generation import explain_mismatch
from advisor.pipeline.advice import advise, with_preferences
from advisor.question.constraints import check_constraints
from advisor.report.documents.document import Problem, RaceEntry, RunDocument
from advisor.report.documents.document_results import read_results
from advisor.report.documents.measured_document import adoption_of, title_of
from advisor.report.documents.workflow_entry import ScoreEntry, WorkflowEntry
from advisor.score import scoring


def decide_again(
    document: RunDocument,
    known: Catalogue,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
) -> RunDocument:
    """Return the document with the scores and the advice that its figures give now.

    Raise `PriorityError` for constraints on figures that the run's task does not measure.
    """
    check_constraints(constraints or (), document.question.task)
    header = with_preferences(_header_of(document, known), priorities, constraints)
    question, known = header.question, header.catalogue
    results = read_results(document, known)
    advice = advise(header, results, scoring.rate_arms(results, known), _excluded(document))
    return msgspec.structs.replace(
        document,
        question=question,
        rubric=known.rubric.name,
        workflows=_entries(document, results, advice.scored, known),
        race=_race(document, advice.recommendation),
        recommendation=advice.recommendation,
        problem=Problem.of(advice.problem),
    )


def _header_of(document: RunDocument, known: Catalogue) -> Header:
    """Return the header of the document's run with the present catalogue."""
    return Header(
        schema=SCHEMA,
        run_id=document.run_id,
        created=document.created,
        advisor_version=document.advisor_version,
        question=document.question,
        machine=document.machine.as_machine(),
        catalogue=known.for_question(document.question),
        imported=document.imported,
    )


def _entries(
    document: RunDocument, results: Results, scored: Sequence[ScoredArm], known: Catalogue
) -> tuple[WorkflowEntry, ...]:
    """Return the measured entries by their new rank, then the others as they were."""
    measured = {entry.arm: entry for entry in document.workflows if entry.status == "completed"}
    figures = {entry.arm: entry for entry in results.measurements}
    workflows = {workflow.id: workflow for workflow in known.workflows}
    ranked = [
        msgspec.structs.replace(
            measured[arm.arm],
            speedup=figures[arm.arm].speedup,
            cells=_reconciled(figures[arm.arm].cells, document.question.output_tokens),
            scores={
                name: ScoreEntry.of(rating, measured[arm.arm].evidence)
                for name, rating in arm.ratings.items()
            },
            title=title_of(measured[arm.arm], workflows),
            adoption=adoption_of(measured[arm.arm], workflows),
            failed_constraints=arm.failed_constraints,
            score=arm.score,
            rank=arm.rank,
        )
        for arm in scored
    ]
    return (*ranked, *(entry for entry in document.workflows if entry.arm not in measured))


def _reconciled(cells: Sequence[Cell], output_tokens: int) -> tuple[Cell, ...]:
    """Return the cells with reasons for latencies that do not add up, which early runs lack."""
    return tuple(
        msgspec.structs.replace(
            cell,
            generation=msgspec.structs.replace(
                cell.generation,
                latency_mismatch=explain_mismatch(
                    cell.generation, cell.seconds.median, output_tokens
                ),
            ),
        )
        if cell.generation
        else cell
        for cell in cells
    )


def _race(document: RunDocument, advice: Recommendation | None) -> RaceEntry | None:
    """Return the race with the verdict that belongs to the advice."""
    if document.race is None:
        return None
    verdict = advice.verdict if advice else "INCONCLUSIVE"
    return msgspec.structs.replace(document.race, verdict=verdict)


def _excluded(document: RunDocument) -> list[Excluded]:
    return [
        Excluded(workflow=entry.id, status=entry.status, reason=entry.reason or "", fix=entry.fix)
        for entry in document.workflows
        # An entry with an option was planned, and failed or was not reached.
        if entry.options is None
        and entry.status in {"unsupported", "not-installed", "excluded", "not-covered"}
    ]
