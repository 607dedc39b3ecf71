"""Explain the tiers and the score of an arm from its raw figures (`explain`), as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.priorities import CRITERIA
from advisor.domain.published import PublishedData, PublishedFigure
from advisor.domain.rubric import LETTERS, Basis, name_fact
from advisor.errors import UnknownCriterionError, UnknownWorkflowError
from advisor.report.documents.document import RunDocument
from advisor.report.documents.workflow_entry import ScoreEntry, WorkflowEntry
from advisor.report.formatting.accuracy_text import accuracy_line
from advisor.report.sections import new_shapes
from advisor.report.sections.setup_facts import describe_sizes
from advisor.system.number_format import (
    format_fact,
    format_interval,
    format_milliseconds,
    format_number,
    format_share,
)

#: What letters and grades mean.
LEGEND = "  letters: A for a grade from 2.5, B from 1.5, C below"
#: Where a rule comes from.
BASES: dict[Basis, str] = {"paper": "stated in the paper", "ours": "our reading of the paper"}


def render(document: RunDocument, workflow: str, criterion: str, published: PublishedData) -> str:
    """Return the explanation of the arms of a workflow, for one criterion or for all.

    An empty `workflow` means the recommended arm, an empty `criterion` all criteria.
    """
    wanted = criterion.replace("-", "_").lower()
    if wanted and wanted not in CRITERIA:
        raise UnknownCriterionError(
            f"there is no criterion {criterion!r}", f"use one of {', '.join(CRITERIA)}"
        )
    blocks = [
        explain_entry(document, entry, [wanted] if wanted else CRITERIA, published)
        for entry in find_entries(document, workflow)
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def find_entries(document: RunDocument, name: str) -> list[WorkflowEntry]:
    """Return the entry of an arm or all entries of a workflow.

    An empty name means the recommended arm. Raise `UnknownWorkflowError` if there is no entry.
    """
    wanted = name or (document.recommendation.arm if document.recommendation else "")
    found = [entry for entry in document.workflows if entry.arm == wanted] or [
        entry for entry in document.workflows if entry.id == wanted
    ]
    if not found:
        measured = [entry for entry in document.workflows if entry.scores is not None]
        known = ", ".join(entry.arm for entry in measured or document.workflows) or "none"
        problem = (
            f"the run has no workflow {wanted!r}"
            if wanted
            else "the run has no recommendation, so a workflow must be named"
        )
        raise UnknownWorkflowError(problem, f"use one of {known}")
    return found


def explain_entry(
    document: RunDocument, entry: WorkflowEntry, criteria: Sequence[str], published: PublishedData
) -> list[str]:
    """Return the lines about one arm; the reason for an arm without a measurement."""
    name = f"{entry.title}, arm {entry.arm}" if entry.title else entry.arm
    if entry.scores is None:
        return [
            f"{name}: {entry.status}, {entry.reason}",
            *([f"  next: {entry.fix}"] if entry.fix else []),
        ]
    lines = [f"{name}, run {document.run_id}, rubric {document.rubric}", LEGEND]
    if "performance" in criteria:
        lines += _measured_lines(document, entry)
        lines += _published_lines(document, entry, published)
    for name in criteria:
        lines += _criterion_lines(name, entry.scores[name])
        if name == "input_flexibility":
            lines += [f"    {new_shapes.describe(result)}" for result in entry.flexibility or ()]
    shares = document.question.priorities.shares()
    terms = " + ".join(
        f"{shares[name]:.3f} x {entry.scores[name].graded:.3f} ({name})" for name in CRITERIA
    )
    lines += ["  score: weight x grade", f"    {terms} = {format_number(entry.score, decimals=3)}"]
    return [*lines, *(f"  excluded: {fail}" for fail in entry.failed_constraints)]


def _measured_lines(document: RunDocument, entry: WorkflowEntry) -> list[str]:
    if entry.evidence == "published":
        return [f"  {entry.reason}"]
    lines = ["  measured (95 % intervals in brackets)"]
    lines += [
        f"    {describe_sizes(document, [cell.batch_size])}: "
        f"{format_interval(cell.speedup, decimals=3)} the baseline's speed, paired within "
        f"rounds; a typical call takes {format_milliseconds(cell.seconds.median)} ms "
        f"({cell.seconds.samples} timed calls)"
        for cell in entry.cells
    ]
    if entry.speedup is not None:
        speedup = format_interval(entry.speedup, decimals=3)
        what = "geometric mean over the batch sizes" if entry.cells else "ratio of request rates"
        lines.append(f"    {what}: {speedup}")
    if entry.correctness is not None:
        lines += [
            f"    outputs at {describe_sizes(document, [checked.batch_size])}: "
            f"{accuracy_line(checked)}"
            for checked in entry.correctness.by_batch_size
        ]
    if entry.engagement:
        share = format_share(entry.engaged_share or 0)
        lines.append(f"    compiled path: {share} of the work ({entry.engagement})")
    return lines


def _published_lines(
    document: RunDocument, entry: WorkflowEntry, published: PublishedData
) -> list[str]:
    """Return the paper's figures of the same model and workflow, and how its question differs."""
    key = document.question.model.name, entry.id
    figures = [figure for figure in published.figure if (figure.model, figure.workflow) == key]
    if not figures:
        return []
    differences = published.differences(document.question)
    title = "published, not comparable" if differences else "published"
    return [
        f"  {title} ({published.source})",
        *([f"    these figures are for {', '.join(differences)}"] if differences else []),
        *map(_figure_line, figures),
    ]


def _figure_line(figure: PublishedFigure) -> str:
    value = f"{figure.low:g}" if figure.low == figure.high else f"{figure.low:g} to {figure.high:g}"
    sizes = ", ".join(map(str, figure.batch_sizes))
    difference = f"; may differ because {figure.differs_because}" if figure.differs_because else ""
    fact = figure.fact.replace("_", " ")
    return (
        f"    {figure.gpu}, {figure.stack}, section {figure.section}, batch size {sizes}: "
        f"{fact} {value}{difference}"
    )


def _criterion_lines(name: str, score: ScoreEntry) -> list[str]:
    decisive = f"{name_fact(score.fact)} = {format_fact(score.value)}"
    lines = [
        f"  {name}: {LETTERS[score.tier]}, grade {score.graded:.2f}, {score.why}",
        f"    rule: {score.rule}; decided by {decisive} ({score.evidence})",
        f"    basis: {BASES[score.basis]}; {score.source}",
    ]
    for gap in score.to_next or ():
        distance = f", {format_number(gap.missing)} away" if gap.missing is not None else ""
        lines.append(
            f"    for {LETTERS[gap.tier]}, {gap.fact} must be {gap.threshold}; "
            f"its value here is {format_fact(gap.value)}{distance}"
        )
    return lines
