"""Which run `resume` continues if the user names none."""

from __future__ import annotations

from advisor.domain.run_state import RunState
from advisor.errors import NotWritableError, UnknownRunError
from advisor.pipeline.stored.baseline_failure import find_failure
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


def can_go_on(state: RunState) -> bool:
    """Return whether neither the reference nor the baseline of a run failed for its model.

    A run whose disk was full goes on when there is space.
    """
    failure = find_failure(state)
    return failure is None or isinstance(failure, NotWritableError)
