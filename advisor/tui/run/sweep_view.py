"""A stored sweep as its screen shows it, and the place of a run in its sweep."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from advisor.domain.question import Question
from advisor.domain.sweep import SweepRecord
from advisor.pipeline.sweeps.decision import decide_lengths
from advisor.report.formatting.phrases import describe_lengths, lengths_of
from advisor.report.sweeps.sweep_document import SweepDocument, decide_and_compose
from advisor.store.runs import RunStatus
from advisor.store.store import Store
from advisor.tui.run.stored_items import GOING_ON, run_states


@dataclasses.dataclass(frozen=True)
class SweepView:
    """The decisions of a sweep and the states of its runs."""

    document: SweepDocument
    #: By the ids of the runs that are stored.
    states: Mapping[str, RunStatus]

    @property
    def is_going_on(self) -> bool:
        return any(state in GOING_ON for state in self.states.values())

    def has_run(self, run_id: str) -> bool:
        return any(each.run_id == run_id for each in self.document.lengths)


def read_sweep(name: str, store: Store, known: SweepView | None = None) -> SweepView:
    """Read a sweep and decide its lengths and its mix; return `known` if nothing has changed."""
    record = store.sweeps.find(name)
    states = run_states(record, {entry.run_id: entry for entry in store.history()}, store)
    if known is not None and known.states == states:
        return known
    return SweepView(decide_and_compose(record, decide_lengths(record, store), store), states)


def describe_place(record: SweepRecord, run_id: str, question: Question) -> str:
    """Return which of the lengths the run measures, such as `length 2 of 3: 512 input tokens`."""
    place = [run.run_id for run in record.runs].index(run_id) + 1
    lengths = describe_lengths(lengths_of(question), question.task)
    return f"length {place} of {len(record.mix)}: {lengths}"
