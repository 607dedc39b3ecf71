"""The answers of stored runs in a few fields, for the lists on Home and in the history."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from advisor.domain.recommendation import Recommendation
from advisor.domain.sweep import is_sweep_id
from advisor.errors import UserError
from advisor.store.index import HistoryEntry
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.store.summaries import RunSummary, load_summary, save_summary

if TYPE_CHECKING:
    from advisor.pipeline.decision import Decision

#: Follows an arm that leads while the decision is open.
OPEN_MARK = " (open)"
DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 86400, 3600, 60


def describe_winner(summary: RunSummary) -> str:
    """Return the advised arm, marked if the decision is open; a word if there is none."""
    mark = OPEN_MARK if summary.decision_word == "OPEN" else ""
    return f"{summary.arm}{mark}" if summary.arm else "no answer"


def summary_of(
    recommendation: Recommendation | None, speedup: float | None, problem: UserError | None
) -> RunSummary:
    """Return the summary of a decision; `speedup` is that of the advised arm."""
    if recommendation is None:
        return RunSummary(headline=problem.what if problem is not None else "")
    lines = recommendation.headline
    return RunSummary(
        arm=recommendation.arm,
        decision_word=recommendation.decision_word,
        trust=recommendation.trust,
        speedup=speedup,
        headline=lines[0] if lines else f"Use {recommendation.arm}.",
    )


def read_summary(run: Run) -> RunSummary:
    """Return the answer of a stored run; it is decided once and then read from the store.

    A run without an answer, or that cannot be read, has an empty summary.
    """
    known = load_summary(run)
    if known is not None:
        return known
    from advisor.pipeline.decision import decide  # noqa: PLC0415 - most summaries are stored

    events_bytes = run.events_bytes()
    try:
        found = decide(run)
    except UserError as problem:
        return RunSummary(headline=problem.what)
    summary = summary_of(found.recommendation, _advised_speedup(found), found.problem)
    save_summary(run, summary, events_bytes)
    return summary


def read_sweep_summary(store: Store, sweep_id: str) -> RunSummary:
    """Return the answer for the mix of a sweep; one that cannot be read has an empty summary."""
    from advisor.pipeline.sweeps.decision import decide_lengths, decide_mix  # noqa: PLC0415 - most lists have no sweep

    try:
        record = store.sweeps.find(sweep_id)
        mix = decide_mix(record, decide_lengths(record, store))
    except UserError as problem:
        return RunSummary(headline=problem.what)
    return summary_of(mix.recommendation, _advised_speedup(mix), mix.problem)


def _advised_speedup(decision: Decision) -> float | None:
    advice = decision.recommendation
    measured = {entry.arm: entry.speedup.value for entry in decision.results.measurements}
    return measured.get(advice.arm) if advice else None


def read_summaries(
    store: Store, entries: Iterable[HistoryEntry], deliver: Callable[[str, RunSummary], object]
) -> None:
    """Deliver the answer of each finished run or sweep, in this order."""
    for entry in entries:
        if not entry.finished:
            continue
        if is_sweep_id(entry.run_id):
            deliver(entry.run_id, read_sweep_summary(store, entry.run_id))
        else:
            deliver(entry.run_id, read_summary(Run(store.run_directory(entry.run_id))))


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
