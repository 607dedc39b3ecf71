"""The commands that look at what is here: the catalogue against this machine, and what is wrong with the machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from advisor.cli import context, environments
from advisor.cli.options import AsJson, takes_answers
from advisor.cli.output import put
from advisor.question.answers import Answers

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.doctor import Finding

app = typer.Typer(rich_markup_mode=None)


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


@app.command()
@takes_answers
def workflows(answers: Answers, *, json: AsJson = False) -> None:
    """List what applies here, what does not and why, how to get it, and where it was verified."""
    from advisor.report.table import align

    rows = examine(answers, context.world())
    if json:
        put(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return
    heading = ["workflow", "here", "verified", "runs in"]
    table = align(
        [
            heading,
            *(
                [row.id, row.status, ", ".join(row.verified) or "never", row.python or ""]
                for row in rows
            ),
        ]
    )
    notes = [
        f"  {row.id}: {row.reason}" + (f"; next: {row.fix}" if row.fix else "")
        for row in rows
        if row.reason
    ]
    put("\n".join([*table, "", *notes]))


@app.command()
def doctor(
    *,
    python: Annotated[str, typer.Option(help="interpreter that has the stacks")] = "",
    observer: Annotated[
        bool,
        typer.Option(
            "--observer", help="measure whether the screens and the GPU's poller disturb the timing"
        ),
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="make environments anew that do not work")
    ] = False,
    json: AsJson = False,
) -> None:
    """Look at GPU, driver, interpreter, disk and environments, and say what to mend."""
    from advisor import doctor as examination
    from advisor.store import default_home

    findings = examination.examine(python or sys.executable, default_home(os.environ), os.environ)
    broken = examination.broken_environments(findings)
    if repair and broken:
        for directory in environments.make(broken, python=python):
            context.say(f"mended: {directory}")
        findings = examination.examine(
            python or sys.executable, default_home(os.environ), os.environ
        )
    if observer:
        from advisor.doctor import display_overhead as observation

        seen = observation.observe(python or sys.executable, context.world())
        findings.append(
            examination.Finding(name="observer", status=seen.status, what=seen.words, fix=seen.fix)
        )
    if json:
        put(msgspec.json.encode(findings))
    else:
        _tell(findings)
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(3)


def examine(answers: Answers, world: Context) -> list[Row]:
    """Hold every workflow against the machine and the question."""
    from advisor import applicability, catalogue, question
    from advisor.pipeline.draft import look

    known = catalogue.load(world.rubric, probes=world.probes)
    here = look(question.interpreter_of(answers), known, world)
    asked = question.resolve(answers, here, known, world.environment.get(question.VISIBLE_DEVICES))
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
                python=None
                if obstacle
                else applicability.python_of(workflow, here) or here.software.executable,
                verified=workflow.verified,
            )
        )
    return rows


def _tell(findings: list[Finding]) -> None:
    from advisor.report.table import align

    rows = [[finding.status, finding.name, finding.what] for finding in findings]
    for line, finding in zip(align(rows), findings, strict=True):
        put(line)
        if finding.fix:
            put(f"      next: {finding.fix}")
