"""Arms that fail a constraint, are hardly used or have no measurement, grouped by reason."""

from __future__ import annotations

from advisor.domain.answer import Answer, Status, UnmeasuredArm
from advisor.system.number_format import format_share

PARTLY_USED = "Used for less than half of the work, the rest ran as without it:"
#: Share of the work below which an arm is listed; tables and `explain` have the share of each.
HALF = 0.5
TITLE = "Not ranked, or excluded by a constraint (!):"
#: Statuses of workflows that were not tried, below those that failed, the more useful to know
#: first.
NOT_TRIED: tuple[Status, ...] = ("skipped", "not-installed", "excluded", "unsupported")


def unranked(answer: Answer) -> list[str]:
    """Return the arms that fail a constraint and the workflows that have no measurement."""
    lines = [f"  {', '.join(arms)}: {fails}" for fails, arms in _failures(answer).items()]
    unnamed = [entry for entry in answer.unmeasured if _is_unnamed(entry, answer)]
    missing = [entry for entry in answer.unmeasured if entry not in unnamed]
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


def _is_unnamed(entry: UnmeasuredArm, answer: Answer) -> bool:
    """Return whether the user named workflows, and not this one, which was not tried."""
    named = {name.partition("/")[0] for name in answer.question.workflows}
    not_tried = entry.status in NOT_TRIED or entry.status == "not-covered"
    return bool(named) and entry.workflow not in named and not_tried


def _failures(answer: Answer) -> dict[str, list[str]]:
    """Return the arms that fail constraints, by what they fail."""
    groups: dict[str, list[str]] = {}
    for arm in answer.scores:
        if arm.failures:
            groups.setdefault("; ".join(arm.failed_constraints), []).append(arm.arm)
    return groups


def _reasons(entries: list[UnmeasuredArm]) -> list[str]:
    """Return a line for each reason with the arms that share it, and their next step."""
    groups: dict[tuple[Status, str, str], list[str]] = {}
    for entry in sorted(entries, key=_usefulness):
        # The next steps of the answer name the command that installs a workflow.
        fix = "" if entry.status == "not-installed" else entry.fix or ""
        groups.setdefault((entry.status, entry.reason, fix), []).append(entry.arm)
    lines = []
    for (status, reason, fix), arms in groups.items():
        lines.append(f"  {', '.join(arms)}: {status}, {reason}")
        if fix:
            lines.append(f"    next: {fix}")
    return lines


def _usefulness(entry: UnmeasuredArm) -> int:
    return NOT_TRIED.index(entry.status) + 1 if entry.status in NOT_TRIED else 0


def partly_used(answer: Answer) -> list[str]:
    """Return a line for each arm that is hardly used, with its share of the work and the proof."""
    lines = [
        f"  {arm.arm}: {format_share(measured.engaged_share)}"
        f"{f' ({measured.engagement})' if measured.engagement else ''}"
        for arm, measured in answer.ranked
        if measured is not None and measured.cells and measured.engaged_share < HALF
    ]
    return [PARTLY_USED, *lines] if lines else []
