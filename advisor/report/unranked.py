"""Arms that are not ranked or miss a constraint, and those that are used for little of the work."""

from __future__ import annotations

from advisor.domain.answer import Answer, Status, UnmeasuredArm
from advisor.domain.plan import ArmName
from advisor.domain.text import format_share
from advisor.report.formatting import Section

PARTLY_USED = "Used for less than half of the work, the rest ran as without it"
#: Share of the work below which an arm is listed; tables and `explain` have the share of each.
HALF = 0.5
TITLE = "Not ranked, or excluded by a constraint (!)"
#: Statuses of workflows that were not tried, below those that failed, the more useful to know
#: first.
NOT_TRIED: tuple[Status, ...] = (
    "skipped",
    "not-installed",
    "not-reached",
    "excluded",
    "unsupported",
)


def unranked(answer: Answer) -> Section:
    failing: dict[str, list[str]] = {}
    for scored in answer.scores:
        if scored.failures:
            failing.setdefault("; ".join(scored.failed_constraints), []).append(scored.arm)
    lines = [f"{', '.join(arms)}: {fails}" for fails, arms in failing.items()]
    listed = [missing for missing in answer.unmeasured if not is_unnamed(missing, answer)]
    lines += _reasons([missing for missing in listed if missing.status != "not-covered"])
    without_probe = [missing.arm for missing in listed if missing.status == "not-covered"]
    if without_probe:
        lines.append(
            f"not covered by p3-advisor: {', '.join(without_probe)}; "
            "p3-advisor workflows gives the reasons"
        )
    return Section("unmeasured", TITLE, lines)


def is_unnamed(missing: UnmeasuredArm, answer: Answer) -> bool:
    """Return whether the user named workflows, and not this one, which was not tried."""
    named = {ArmName.parse(name).workflow for name in answer.question.workflows}
    not_tried = missing.status in NOT_TRIED or missing.status == "not-covered"
    return bool(named) and ArmName.parse(missing.arm).workflow not in named and not_tried


def _reasons(entries: list[UnmeasuredArm]) -> list[str]:
    groups: dict[tuple[Status, str, str], list[str]] = {}
    ranks = {status: rank for rank, status in enumerate(NOT_TRIED, 1)}
    for missing in sorted(entries, key=lambda each: ranks.get(each.status, 0)):
        # The next steps of the answer name the command that installs a workflow.
        fix = "" if missing.status == "not-installed" else missing.fix or ""
        groups.setdefault((missing.status, missing.reason, fix), []).append(missing.arm)
    lines = []
    for (status, reason, fix), arms in groups.items():
        lines.append(f"{', '.join(arms)}: {status}, {reason}")
        if fix:
            lines.append(f"  next: {fix}")
    return lines


def partly_used(answer: Answer) -> Section:
    lines = [
        f"{scored.arm}: {format_share(measured.engaged_share)}"
        f"{f' ({measured.engagement})' if measured.engagement else ''}"
        for scored, measured in answer.ranking
        if measured.cells and measured.engaged_share < HALF
    ]
    return Section("partly", PARTLY_USED, lines)
