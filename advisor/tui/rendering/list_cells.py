"""Cells of the lists of runs on Home and in the history."""

from __future__ import annotations

import datetime as dt

from advisor.domain.answer import AnswerSummary

#: Follows an arm that leads while the decision is open.
OPEN_MARK = " (open)"
DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 86400, 3600, 60


def describe_winner(summary: AnswerSummary) -> str:
    """Return the advised arm, marked if the decision is open; a word if there is none."""
    mark = OPEN_MARK if summary.decision_word == "OPEN" else ""
    return f"{summary.arm}{mark}" if summary.arm else "no answer"


def format_age(created: str, now: dt.datetime) -> str:
    """Return how long ago something was created, such as `3 h ago`; empty if not known."""
    try:
        then = dt.datetime.fromisoformat(created)
    except ValueError:
        return ""
    if then.tzinfo is None:
        then = then.replace(tzinfo=now.tzinfo)
    seconds = max((now - then).total_seconds(), 0)
    for unit, name in ((DAY_SECONDS, "d"), (HOUR_SECONDS, "h"), (MINUTE_SECONDS, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} ago"
    return "just now"
