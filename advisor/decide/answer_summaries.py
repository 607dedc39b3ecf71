"""The answers of stored runs in a few fields, for lists of runs; each is decided once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from advisor.domain.answer import AnswerSummary
from advisor.errors import UserError
from advisor.store.runs import HistoryEntry, Run
from advisor.store.store import Store


def read_summary(store: Store, entry: HistoryEntry) -> AnswerSummary:
    """Return the answer of a stored run; it is decided once and then read from the store.

    A run without an answer, or that cannot be read, has an empty summary.
    """
    if entry.answer is not None:
        return entry.answer
    from advisor.decide.decision import decide  # noqa: PLC0415 - most summaries are stored

    run = Run(store.run_directory(entry.run_id))
    events_bytes = run.events_bytes()
    try:
        summary = AnswerSummary.of(decide(run))
    except UserError as problem:
        return AnswerSummary(headline=problem.what)
    store.save_answer(entry, summary, events_bytes)
    return summary


def read_summaries(store: Store, entries: Iterable[HistoryEntry]) -> dict[str, AnswerSummary]:
    """Return the answers of the finished runs by their ids."""
    return {entry.run_id: read_summary(store, entry) for entry in entries if entry.finished}


def with_answers(store: Store, entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Return the runs with their answers, in this order."""
    answers = read_summaries(store, entries)
    return [msgspec.structs.replace(entry, answer=answers.get(entry.run_id)) for entry in entries]
