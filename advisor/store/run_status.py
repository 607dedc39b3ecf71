"""Whether a stored run is being measured, has finished or was stopped."""

from __future__ import annotations

from typing import Literal

from advisor.store.index import HistoryEntry
from advisor.store.runs import Run

RunStatus = Literal["running", "paused", "stopped", "finished", "imported"]


def state_of(entry: HistoryEntry, run: Run) -> RunStatus:
    """Return the state of a stored run."""
    if entry.imported:
        return "imported"
    if run.is_active():
        return "paused" if run.control.is_paused() else "running"
    return "finished" if entry.finished else "stopped"
