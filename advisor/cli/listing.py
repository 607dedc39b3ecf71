"""`workflows`: the catalogue against this machine."""

from __future__ import annotations

import msgspec

from advisor import applicability, catalogue, machine, question
from advisor.question.answers import Answers
from advisor.report.table import align


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One workflow."""

    id: str
    title: str
    status: str
    reason: str | None
    fix: str | None
    verified: tuple[str, ...]


def render(answers: Answers, *, as_json: bool) -> str:
    """Return the list as text or JSON."""
    rows = examine(answers)
    if as_json:
        return msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n"
    table = align([["workflow", "here", "verified"], *([row.id, row.status, ", ".join(row.verified) or "never"] for row in rows)])
    notes = [f"  {row.id}: {row.reason}" + (f"; next: {row.fix}" if row.fix else "") for row in rows if row.reason]
    return "\n".join([*table, "", *notes]) + "\n"


def examine(answers: Answers) -> list[Row]:
    """Hold every workflow against the machine and the question."""
    known = catalogue.load()
    here = machine.detect(question.interpreter_of(answers), applicability.required_packages(known))
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
                verified=workflow.verified,
            )
        )
    return rows
