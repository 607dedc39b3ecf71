"""Which run `resume` continues if the user names none."""

from __future__ import annotations

from advisor.errors import UnknownRunError
from advisor.pipeline.stored.baseline_failure import can_go_on
from advisor.store.runs import Run
from advisor.store.store import Store


def newest_resumable(store: Store) -> Run:
    """Return the newest run that can go on, or the newest unfinished one if none can.

    Raise `UnknownRunError` if there is no unfinished run of this machine.
    """
    newest: Run | None = None
    for run, state in store.resumable_runs():
        if can_go_on(state):
            return run
        newest = newest or run
    if newest is None:
        raise UnknownRunError("there is no run that could be resumed", "see p3-advisor history")
    return newest
