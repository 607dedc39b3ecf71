"""The answers of stored runs in a few fields, for lists of runs; each is decided once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from advisor.domain.recommendation import Recommendation
from advisor.domain.sweep import is_sweep_id
from advisor.errors import UserError
from advisor.store.index import HistoryEntry
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.store.summaries import RunSummary, load_summary, save_summary

if TYPE_CHECKING:
    from advisor.pipeline.decision import Decision


class AnsweredRun(HistoryEntry, frozen=True, kw_only=True):
    """One run in the history, with its answer."""

    #: Null for a run that is not finished.
    answer: RunSummary | None = None


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


def read_summaries(store: Store, entries: Iterable[HistoryEntry]) -> dict[str, RunSummary]:
    """Return the answers of the finished runs and sweeps by their ids."""
    return {
        entry.run_id: read_sweep_summary(store, entry.run_id)
        if is_sweep_id(entry.run_id)
        else read_summary(Run(store.run_directory(entry.run_id)))
        for entry in entries
        if entry.finished
    }


def with_answers(store: Store, entries: Sequence[HistoryEntry]) -> list[AnsweredRun]:
    """Return the runs with their answers, in this order."""
    answers = read_summaries(store, entries)
    return [
        AnsweredRun(**msgspec.structs.asdict(entry), answer=answers.get(entry.run_id))
        for entry in entries
    ]
