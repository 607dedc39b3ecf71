"""`workflows`: the catalogue against this machine."""

from __future__ import annotations

import msgspec

from advisor import applicability, catalogue, pipeline, question
from advisor.question.answers import Answers
from advisor.report.table import align


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One workflow."""

    id: str
    title: str
    status: str
    reason: str | None
    fix: str | None
    #: The interpreter its workers run in, where it applies.
    python: str | None
    verified: tuple[str, ...]


def render(answers: Answers, world: pipeline.World, *, as_json: bool) -> str:
    """Return the list as text or JSON."""
    rows = examine(answers, world)
    if as_json:
        return msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n"
    heading = ["workflow", "here", "verified", "runs in"]
    table = align([heading, *([row.id, row.status, ", ".join(row.verified) or "never", row.python or ""] for row in rows)])
    notes = [f"  {row.id}: {row.reason}" + (f"; next: {row.fix}" if row.fix else "") for row in rows if row.reason]
    return "\n".join([*table, "", *notes]) + "\n"


def examine(answers: Answers, world: pipeline.World) -> list[Row]:
    """Hold every workflow against the machine and the question."""
    known = catalogue.load(world.rubric, probes=world.probes)
    here = pipeline.look(question.interpreter_of(answers), known, world)
    asked = question.resolve(answers, here, known)
    rows = []
    for workflow in known.workflows:
        obstacle = applicability.find_obstacle(workflow, asked, here)
        rows.append(
            Row(
                id=workflow.id,
                title=workflow.title,
                status=obstacle.status if obstacle else "applies",
                reason=obstacle.reason if obstacle else None,
                fix=obstacle.fix if obstacle else None,
                python=None if obstacle else applicability.python_of(workflow, here) or here.software.executable,
                verified=workflow.verified,
            )
        )
    return rows
