"""Find the unfinished run or sweep of this machine that is offered first."""

from __future__ import annotations

import msgspec

from advisor.domain.sweep import is_sweep_id
from advisor.errors import RunFileError
from advisor.pipeline.stored.baseline_failure import can_go_on
from advisor.store.store import Store
from advisor.tui.rendering import text
from advisor.tui.run.stored_items import list_sweeps


class UnfinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished run or sweep, stopped or in progress in another process."""

    run_id: str
    model: str
    device: str
    #: Whether a process works on it now.
    is_active: bool
    #: Number of further unfinished runs.
    others: int

    @property
    def notice(self) -> str:
        """The line that offers to continue or show the run."""
        state, key = (
            ("In the background", "ctrl+g shows it")
            if self.is_active
            else ("Stopped", "ctrl+g resumes it")
        )
        kind = "sweep" if is_sweep_id(self.run_id) else "run"
        run = f"{kind} {self.run_id[-11:]}, {text.printable(self.model, 20)}"
        others = f"; {self.others} more in the history" if self.others else ""
        return f"{state}: {run} on {text.printable(self.device, 20)}; {key}{others}"


def find_unfinished_run(store: Store) -> UnfinishedRun | None:
    """Return the newest unfinished run that can go on, or the sweep that it belongs to.

    If none can go on, return the newest unfinished one. Creates nothing in an empty store.
    """
    entries = [] if store.is_empty() else store.history()
    sweeps = {item.item_id: item for item in list_sweeps(store, entries)}
    of_sweeps = {run_id for item in sweeps.values() for run_id in item.run_ids}
    runs = [entry for entry in entries if entry.run_id not in of_sweeps]
    unfinished = [
        entry for entry in (*runs, *(item.entry for item in sweeps.values())) if entry.is_resumable
    ]
    if not unfinished:
        return None
    unfinished.sort(key=lambda entry: entry.created, reverse=True)
    newest = next(
        (each for each in unfinished if each.run_id in sweeps or _can_go_on(store, each.run_id)),
        unfinished[0],
    )
    sweep = sweeps.get(newest.run_id)
    return UnfinishedRun(
        run_id=newest.run_id,
        model=newest.model,
        device=newest.device,
        is_active=sweep.is_going_on if sweep else store.find(newest.run_id).is_active(),
        others=len(unfinished) - 1,
    )


def _can_go_on(store: Store, run_id: str) -> bool:
    """Return whether the run can go on; a damaged run cannot."""
    try:
        return can_go_on(store.find(run_id).state())
    except RunFileError:
        return False
