"""A run of this machine that was not finished: stopped, or going on without anybody who looks."""

from __future__ import annotations

import msgspec

from advisor.store import Store
from advisor.tui import text


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The newest such run, and what is said of it."""

    run_id: str
    words: str


def find_waiting(store: Store) -> Waiting | None:
    """Return the newest run that was not finished, if there is one; nothing is written where no run was ever stored."""
    unfinished = (
        [] if store.is_empty() else [entry for entry in store.history() if entry.is_waiting]
    )
    if not unfinished:
        return None
    newest = unfinished[0]
    is_active = store.find(newest.run_id).is_active()
    state, key = ("In the background", "shows it") if is_active else ("Stopped", "goes on")
    further = f"; {len(unfinished) - 1} more in the history" if len(unfinished) > 1 else ""
    run = f"run {newest.run_id[-11:]}, {text.plain(newest.model, 20)} on {text.plain(newest.device, 20)}"
    return Waiting(run_id=newest.run_id, words=f"{state}: {run}; ctrl+g {key}{further}")
