"""Show stored sweeps, continue them, and follow the process that measures one length by length."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from textual.app import App

from advisor.context import Context
from advisor.domain.sweep import SweepRecord
from advisor.pipeline.sweeps.decision import decide_lengths
from advisor.pipeline.sweeps.runs import next_run
from advisor.store.runs import Run
from advisor.tui.interfaces import AppInterface
from advisor.tui.run.session import RunSession
from advisor.tui.run.sweep_view import SweepView, read_sweep


class SweepController:
    """What the screens do with a sweep as a whole."""

    def __init__(self, app: App[int], show: Callable[[SweepView], None]) -> None:
        """`show` shows a sweep in place of the current screens."""
        self._app, self._show = app, show
        self._app_interface = cast("AppInterface", app)

    def open(self, name: str, on_shown: Callable[[SweepView], object] = lambda _: None) -> None:
        """Show a stored sweep, then call `on_shown`."""
        store = self._app_interface.context.store

        def show(view: SweepView) -> None:
            self._show(view)
            on_shown(view)

        self._app_interface.background.start("results", lambda: read_sweep(name, store), show)

    def resume(self, name: str) -> None:
        """Measure the lengths that have no finished run."""
        controller, context = self._app_interface.run_controller, self._app_interface.context
        if controller.refuse_if_busy():
            return

        def start(run: Run | None) -> None:
            if run is None:
                self.open(name)
            elif run.is_active():
                self._app_interface.run_opener.open(run.directory.name)
            else:
                controller.run(run)

        self._app_interface.background.start("resume", lambda: _next_run(name, context), start)

    def find_of_run(self, run: Run) -> SweepRecord | None:
        """Return the sweep that a run belongs to."""
        return self._app_interface.context.store.sweeps.find_of_run(run.directory.name)

    def next_session(self, session: RunSession) -> RunSession | None:
        """Return the session of the run after a finished one; None until it is stored."""
        if session.sweep is None or not session.awaits_next_run:
            return None
        store = self._app_interface.context.store
        record = store.sweeps.find(session.sweep.sweep_id)
        run_id = record.runs[-1].run_id
        if run_id == session.follower.header.run_id:
            return None
        return RunSession.for_run(store.find(run_id), session.host, record)

    def show_end(self, session: RunSession) -> None:
        """Show the sweep of a run that has ended, and why lengths are left if they failed."""
        if session.sweep is None:
            return

        def report_failure(view: SweepView) -> None:
            reason = session.failure_reason()
            if session.is_finished and not view.document.finished and reason:
                self._app.notify(reason, severity="error", markup=False)

        self.open(session.sweep.sweep_id, report_failure)


def _next_run(name: str, context: Context) -> Run | None:
    """Return the run that continues a sweep, stored now if it is new; None for a finished sweep."""
    record = context.store.sweeps.find(name)
    found = next_run(record, decide_lengths(record, context.store), context)
    return found.run if found is not None else None
