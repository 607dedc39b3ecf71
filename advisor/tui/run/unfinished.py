"""Find the unfinished run of this machine that is offered first."""

from __future__ import annotations

import msgspec

from advisor.errors import RunFileError
from advisor.pipeline.stored.baseline_failure import can_go_on
from advisor.store.store import Store
from advisor.tui.rendering import text


class UnfinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished run, stopped or in progress in another process."""

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
        run = f"run {self.run_id[-11:]}, {text.printable(self.model, 20)}"
        others = f"; {self.others} more in the history" if self.others else ""
        return f"{state}: {run} on {text.printable(self.device, 20)}; {key}{others}"


def find_unfinished_run(store: Store) -> UnfinishedRun | None:
    """Return the newest unfinished run that can go on.

    If none can go on, return the newest unfinished one. Creates nothing in an empty store.
    """
    entries = [] if store.is_empty() else store.history()
    unfinished = [entry for entry in entries if entry.is_resumable]
    if not unfinished:
        return None
    newest = next((each for each in unfinished if _can_go_on(store, each.run_id)), unfinished[0])
    return UnfinishedRun(
        run_id=newest.run_id,
        model=newest.model,
        device=newest.device,
        is_active=store.find(newest.run_id).is_active(),
        others=len(unfinished) - 1,
    )


def _can_go_on(store: Store, run_id: str) -> bool:
    """Return whether the run can go on; a damaged run cannot."""
    try:
        return can_go_on(store.find(run_id).state())
    except RunFileError:
        return False
