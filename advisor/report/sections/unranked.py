"""Arms that fail a constraint and workflows without a measurement, grouped by reason."""

from __future__ import annotations

from advisor.report.documents.document import RunDocument
from advisor.report.documents.workflow_entry import Status, WorkflowEntry

TITLE = "Not ranked, or excluded by a constraint (!):"
#: Statuses of workflows that were not tried, below those that failed, the more useful to know
#: first.
NOT_TRIED: tuple[Status, ...] = ("skipped", "not-installed", "excluded", "unsupported")


def unranked(document: RunDocument) -> list[str]:
    """Return the arms that fail a constraint and the workflows that have no measurement."""
    lines = [f"  {', '.join(arms)}: {fails}" for fails, arms in _failures(document).items()]
    missing = [entry for entry in document.workflows if entry.rank is None]
    unnamed = [entry for entry in missing if _is_unnamed(entry, document)]
    missing = [entry for entry in missing if entry not in unnamed]
    lines += _reasons([entry for entry in missing if entry.status != "not-covered"])
    without_probe = [entry.arm for entry in missing if entry.status == "not-covered"]
    if without_probe:
        lines.append(
            f"  not covered by p3-advisor: {', '.join(without_probe)}; "
            "p3-advisor workflows gives the reasons"
        )
    if unnamed:
        lines.append(
            f"  not named in --workflows and not tried: {len(unnamed)} workflows, "
            "which p3-advisor workflows lists"
        )
    return [TITLE, *lines] if lines else []


def _is_unnamed(entry: WorkflowEntry, document: RunDocument) -> bool:
    """Return whether the user named workflows, and not this one, which was not tried."""
    named = {name.partition("/")[0] for name in document.question.workflows}
    not_tried = entry.status in NOT_TRIED or entry.status == "not-covered"
    return bool(named) and entry.id not in named and not_tried


def _failures(document: RunDocument) -> dict[str, list[str]]:
    """Return the arms that fail constraints, by what they fail."""
    groups: dict[str, list[str]] = {}
    for entry in document.workflows:
        if entry.failed_constraints:
            groups.setdefault("; ".join(entry.failed_constraints), []).append(entry.arm)
    return groups


def _reasons(entries: list[WorkflowEntry]) -> list[str]:
    """Return a line for each reason with the arms that share it, and their next step."""
    groups: dict[tuple[Status, str, str], list[str]] = {}
    for entry in sorted(entries, key=_usefulness):
        # The next steps of the answer name the command that installs a workflow.
        fix = "" if entry.status == "not-installed" else entry.fix or ""
        groups.setdefault((entry.status, entry.reason or "", fix), []).append(entry.arm)
    lines = []
    for (status, reason, fix), arms in groups.items():
        lines.append(f"  {', '.join(arms)}: {status}, {reason}")
        if fix:
            lines.append(f"    next: {fix}")
    return lines


def _usefulness(entry: WorkflowEntry) -> int:
    return NOT_TRIED.index(entry.status) + 1 if entry.status in NOT_TRIED else 0
