"""`explain`: the chain from the raw figures of an arm to its tiers and its score. Plain text."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.published import Published, PublishedFigure
from advisor.domain.question import CRITERIA
from advisor.errors import UnknownCriterionError, UnknownWorkflowError
from advisor.report.document import RunDocument, ScoreEntry, WorkflowEntry


def render(document: RunDocument, workflow: str, criterion: str, published: Published) -> str:
    """Return the explanation of the arms of `workflow`, the recommended arm's for an empty name, limited to `criterion` if one is given."""
    wanted = criterion.replace("-", "_").lower()
    if wanted and wanted not in CRITERIA:
        raise UnknownCriterionError(
            f"there is no criterion {criterion!r}", f"use one of {', '.join(CRITERIA)}"
        )
    entries = find_entries(document, workflow)
    blocks = [
        explain_entry(document, entry, [wanted] if wanted else CRITERIA, published)
        for entry in entries
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def find_entries(document: RunDocument, workflow: str) -> list[WorkflowEntry]:
    """Return the entries that go by this name; raise `UnknownWorkflowError` when there is none."""
    name = workflow or (document.recommendation.arm if document.recommendation else "")
    found = [entry for entry in document.workflows if entry.arm == name] or [
        entry for entry in document.workflows if entry.id == name
    ]
    if not found:
        known = ", ".join(entry.arm for entry in document.workflows) or "none"
        what = (
            f"the run has no workflow {name!r}"
            if name
            else "the run recommends nothing, so a workflow has to be named"
        )
        raise UnknownWorkflowError(what, f"use one of {known}")
    return found


def explain_entry(
    document: RunDocument, entry: WorkflowEntry, criteria: Sequence[str], published: Published
) -> list[str]:
    """Return the lines about one arm; for an arm without a measurement they are its reason."""
    if entry.scores is None:
        return [
            f"{entry.arm}: {entry.status}, {entry.reason}",
            *([f"  next: {entry.fix}"] if entry.fix else []),
        ]
    lines = [f"{entry.arm}, run {document.run_id}, rubric {document.rubric}"]
    if "performance" in criteria:
        lines += _figures(entry)
        lines += _published(document, entry, published)
    for name in criteria:
        lines += _criterion(name, entry.scores[name])
    shares = document.question.priorities.shares()
    sum_ = " + ".join(
        f"{shares[name]:.3f} x {entry.scores[name].tier} ({name})" for name in CRITERIA
    )
    lines += ["  score", f"    {sum_} = {entry.score:.3f}"]
    lines += [f"  barred: {fail}" for fail in entry.fails]
    return lines


def _figures(entry: WorkflowEntry) -> list[str]:
    lines = ["  measured"]
    for cell in entry.cells:
        seconds, speedup = cell.seconds, cell.speedup
        lines.append(
            f"    batch size {cell.batch_size}: median {seconds.median * 1e3:.4g} ms of {seconds.samples} timed calls, "
            f"{speedup.value:.3f}x the baseline's speed ({_bounds(speedup.low, speedup.high)}), paired within rounds"
        )
    if entry.speedup is not None:
        bounds = _bounds(entry.speedup.low, entry.speedup.high)
        lines.append(
            f"    geometric mean over the batch sizes: {entry.speedup.value:.3f}x ({bounds})"
        )
    if entry.correctness is not None:
        lines.append(
            f"    outputs: {entry.correctness.verdict}, compared with {entry.correctness.reference}"
        )
    if entry.engagement:
        lines.append(
            f"    compiled path: {entry.engaged_share or 0:.0%} of the work ({entry.engagement})"
        )
    return lines


def _bounds(low: float | None, high: float | None) -> str:
    return (
        f"95 %: {low:.3f} to {high:.3f}"
        if low is not None and high is not None
        else "95 %: not bounded"
    )


def _published(document: RunDocument, entry: WorkflowEntry, published: Published) -> list[str]:
    """Return the paper's figures of the same model and workflow, each with where it was measured."""
    same = [
        figure
        for figure in published.figure
        if (figure.model, figure.workflow) == (document.question.model.name, entry.id)
    ]
    return [f"  published ({published.source})", *map(_figure_line, same)] if same else []


def _figure_line(figure: PublishedFigure) -> str:
    value = f"{figure.low:g}" if figure.low == figure.high else f"{figure.low:g} to {figure.high:g}"
    sizes = ", ".join(map(str, figure.batch_sizes))
    why = (
        f"; a difference may come from this: {figure.differs_because}"
        if figure.differs_because
        else ""
    )
    fact = figure.fact.replace("_", " ")
    return f"    {figure.gpu}, {figure.stack}, section {figure.section}, batch size {sizes}: {fact} {value}{why}"


def _criterion(name: str, rating: ScoreEntry) -> list[str]:
    lines = [
        f"  {name}: tier {rating.tier}, {rating.why}",
        f"    rule: {rating.rule}; decided by {rating.fact} = {tell_value(rating.value)} ({rating.evidence})",
        f"    basis: {rating.basis}; {rating.source}",
    ]
    for distance in rating.to_next or ():
        missing = f", {distance.missing:.4g} away" if distance.missing is not None else ""
        lines.append(
            f"    tier {distance.tier} asks for {distance.fact} {distance.threshold}; it is {tell_value(distance.value)}{missing}"
        )
    return lines


def tell_value(value: float | str | bool | None) -> str:  # noqa: FBT001 - a fact is what it is
    """Return a fact's value in words."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
