"""Open what is stored: runs and documents, to show or to resume them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from advisor.decide.decision import decide
from advisor.domain.run_state import Header
from advisor.errors import UserError
from advisor.execute.execution import check_resumable
from advisor.execute.remaining import newest_resumable
from advisor.report.answer_files import is_file, read_answer
from advisor.store.runs import HistoryEntry, Run
from advisor.store.store import Store
from advisor.tui import text
from advisor.tui.answer import RunAnswer
from advisor.tui.session import RunSession

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp


class UnfinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished run, stopped or in progress in another process."""

    entry: HistoryEntry
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
        run = f"run {self.entry.run_id[-11:]}, {text.printable(self.entry.model, 20)}"
        others = f"; {self.others} more in the history" if self.others else ""
        return f"{state}: {run} on {text.printable(self.entry.device, 20)}; {key}{others}"


def find_unfinished_run(store: Store) -> UnfinishedRun | None:
    """Return the run that is resumed first; create nothing in an empty store."""
    entries = [] if store.is_empty() else store.history()
    unfinished = {entry.run_id: entry for entry in entries if entry.is_resumable}
    if not unfinished:
        return None
    run = newest_resumable(store)
    return UnfinishedRun(
        entry=unfinished[run.directory.name],
        is_active=run.is_active(),
        others=len(unfinished) - 1,
    )


def open_stored(app: AdvisorApp, name: str) -> None:
    """Show the results of a stored run or document, or the progress of a run."""
    show = app.run_controller
    if is_file(name):
        catalogue = app.catalogue
        app.background.start(
            "results",
            lambda: RunAnswer.of_file(read_answer(name), catalogue),
            show.show_answer,
        )
    else:
        run = _find(app, name)
        if run is not None:
            _open_run(app, run)


def _open_run(app: AdvisorApp, run: Run) -> None:
    controller = app.run_controller
    session = controller.session
    if controller.owned_host is None or session is None:
        _start_session(app, run)
    elif session.follower.run.directory == run.directory and not session.is_finished:
        controller.show(session)
    elif not run.is_active():
        # The run that this program executes stays the current one.
        controller.show_decided(lambda: decide(run), run)
    else:
        controller.refuse_if_busy()


def _start_session(app: AdvisorApp, run: Run) -> None:
    controller = app.run_controller
    try:
        session = RunSession.for_run(run)
        session.refresh()
    except UserError as error:
        app.show_error(error)
        return
    if session.is_running:
        controller.show(session)
    else:
        controller.session = session
        controller.show_results()


def resume(app: AdvisorApp, name: str) -> None:
    """Resume a stopped run; show it if another process is working on it."""
    run = _find(app, name, check_resumable)
    if run is None:
        return
    if run.is_active():
        open_stored(app, name)
    elif not app.run_controller.refuse_if_busy():
        app.run_controller.run(run)


def _find(
    app: AdvisorApp, name: str, check: Callable[[Header], None] = lambda _: None
) -> Run | None:
    """Return the run, or None after showing why it cannot be read or does not pass `check`."""
    try:
        run = app.context.store.find(name)
        check(run.header())
        run.state()
    except UserError as error:
        app.show_error(error)
        return None
    return run
