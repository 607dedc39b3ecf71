"""What the lists on Home and in the history show: stored runs and sweeps, and examples."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from advisor.catalogue.rubric_files import rubric_directory
from advisor.domain.answer import Answer, AnswerSummary
from advisor.domain.sweep import SweepRecord
from advisor.errors import RunFileError
from advisor.store.entries import HistoryEntry
from advisor.store.runs import Run, RunStatus, state_of
from advisor.store.store import Store
from advisor.system.number_format import format_speedup

#: Follows an arm that leads while the decision is open.
OPEN_MARK = " (open)"
DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 86400, 3600, 60
#: Precedes the model of a sweep.
SWEEP_MARK = "sweep"
#: States of runs that a process works on.
GOING_ON: tuple[RunStatus, ...] = ("running", "paused")


class StoredItem(msgspec.Struct, frozen=True, kw_only=True):
    """A run or a sweep."""

    #: Of a sweep, `run_id` is that of the sweep.
    entry: HistoryEntry
    state: RunStatus
    #: Number of lengths of a sweep, and of those that are measured; 0 for a run.
    lengths: int = 0
    measured: int = 0
    #: The runs of a sweep.
    run_ids: tuple[str, ...] = ()
    #: When the run, or the newest run of the sweep, was created.
    newest: str
    #: The sweep of a run; empty for a run without one.
    sweep_id: str = ""

    @property
    def item_id(self) -> str:
        return self.entry.run_id

    @property
    def is_sweep(self) -> bool:
        return self.lengths > 0

    @property
    def is_going_on(self) -> bool:
        return self.state in GOING_ON

    @property
    def model(self) -> str:
        return f"{SWEEP_MARK} {self.entry.model}" if self.is_sweep else self.entry.model

    @property
    def progress(self) -> str:
        """How many lengths of an unfinished sweep are measured, or that a run measured nothing."""
        if not self.is_sweep:
            return "" if self.entry.measured or self.is_going_on else "no measurement"
        if self.entry.finished:
            return ""
        return f"{self.measured}/{self.lengths} lengths"


def list_items(store: Store, most_runs: int | None = None) -> list[StoredItem]:
    """Return the sweeps and the newest runs, newest first; create nothing in an empty store."""
    entries = [] if store.is_empty() else store.history()
    sweeps = list_sweeps(store, entries)
    sweep_of = {run_id: item.item_id for item in sweeps for run_id in item.run_ids}
    runs = [
        StoredItem(
            entry=entry,
            state=state_of(entry, Run(store.run_directory(entry.run_id))),
            newest=entry.created,
            sweep_id=sweep_of.get(entry.run_id, ""),
        )
        for entry in entries[:most_runs]
    ]
    # The sort is stable: a sweep precedes its newest run.
    return sorted([*sweeps, *runs], key=lambda item: item.newest, reverse=True)


def list_sweeps(store: Store, entries: Sequence[HistoryEntry]) -> list[StoredItem]:
    """Return the readable sweeps, newest first; `entries` are the stored runs."""
    by_id = {entry.run_id: entry for entry in entries}
    return [_sweep_item(record, by_id, store) for record in _read_records(store)]


def _read_records(store: Store) -> Iterator[SweepRecord]:
    for sweep_id in reversed(store.sweeps.ids()):
        with contextlib.suppress(RunFileError):
            yield store.sweeps.find(sweep_id)


def _sweep_item(
    record: SweepRecord, entries: Mapping[str, HistoryEntry], store: Store
) -> StoredItem:
    states = run_states(record, entries, store)
    known = [entries[run_id] for run_id in states]
    measured = sum(entry.finished for entry in known)
    first = known[0] if known else None
    entry = HistoryEntry(
        run_id=record.sweep_id,
        created=record.created,
        model=first.model if first else str(record.answers.get("model", "")),
        device=first.device if first else "",
        finished=measured == len(record.mix),
        measured=any(entry.measured for entry in known),
    )
    return StoredItem(
        entry=entry,
        state=_sweep_state(tuple(states.values()), is_finished=entry.finished),
        lengths=len(record.mix),
        measured=measured,
        run_ids=tuple(run.run_id for run in record.runs),
        newest=max((entry.created for entry in known), default=record.created),
    )


def _sweep_state(states: Sequence[RunStatus], *, is_finished: bool) -> RunStatus:
    active = next((state for state in GOING_ON if state in states), None)
    return active or ("finished" if is_finished else "stopped")


def run_states(
    record: SweepRecord, entries: Mapping[str, HistoryEntry], store: Store
) -> dict[str, RunStatus]:
    """Return the state of each stored run of a sweep, by its id; deleted runs are left out."""
    return {
        run.run_id: state_of(entries[run.run_id], Run(store.run_directory(run.run_id)))
        for run in record.runs
        if run.run_id in entries
    }


@functools.cache
def list_examples() -> dict[pathlib.Path, Answer]:
    """Return the answers that are part of the program by their files, in the order of names."""
    files = sorted((rubric_directory() / "examples").glob("*.json"))
    return {file: msgspec.json.decode(file.read_bytes(), type=Answer) for file in files}


def list_cells(item: StoredItem, summary: AnswerSummary | None, now: dt.datetime) -> dict[str, str]:
    """Return the cells of a run or sweep; the summary counts only for a finished one."""
    entry = item.entry
    cells = {
        "model": item.model,
        "answer": item.progress,
        "device": entry.device,
        "state": item.state,
        "age": format_age(entry.created, now),
        "id": entry.run_id,
        "note": entry.note,
    }
    if entry.finished and summary is not None:
        cells["answer"] = describe_winner(summary)
        cells["speed"] = format_speedup(summary.speedup) if summary.arm else ""
        cells["trust"] = summary.trust or ""
    return cells


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
