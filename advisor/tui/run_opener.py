"""Open what is stored: runs, sweeps and documents, to show or to resume them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from textual.app import App

from advisor.domain.run import Header
from advisor.domain.sweep import is_sweep_id
from advisor.errors import UserError
from advisor.pipeline.decision import decide
from advisor.pipeline.execution import check_resumable
from advisor.report.opening import is_file, read_answer
from advisor.store.runs import Run
from advisor.tui.answer import RunAnswer
from advisor.tui.interfaces import AppInterface
from advisor.tui.run.session import RunSession

if TYPE_CHECKING:
    from advisor.tui.run_controller import RunController


class RunOpener:
    """Finds what is stored under a name and hands it to the controller."""

    def __init__(self, app: App[int], controller: RunController) -> None:
        self._app_interface = cast("AppInterface", app)
        self._controller = controller

    def open(self, name: str) -> None:
        """Show the results of a stored run, sweep or document, or the progress of a run."""
        if is_sweep_id(name):
            self._controller.sweeps.open(name)
        elif is_file(name):
            self._open_file(name)
        else:
            run = self._find(name)
            if run is not None:
                self._open_run(run)

    def _open_file(self, file: str) -> None:
        catalogue = self._app_interface.catalogue
        self._app_interface.background.start(
            "results",
            lambda: RunAnswer.of_file(read_answer(file), catalogue),
            self._controller.show_answer,
        )

    def _open_run(self, run: Run) -> None:
        session = self._controller.session
        if self._controller.owned_host is None or session is None:
            self._start_session(run)
        elif session.follower.run.directory == run.directory and not session.is_finished:
            self._controller.show(session)
        elif not run.is_active():
            # The run that this program executes stays the current one.
            self._controller.show_decided(lambda: decide(run), run)
        else:
            self._controller.refuse_if_busy()

    def _start_session(self, run: Run) -> None:
        try:
            session = RunSession.for_run(run)
            session.refresh()
        except UserError as error:
            self._app_interface.show_error(error)
            return
        if session.is_running:
            session.sweep = self._controller.sweeps.find_of_run(run)
            self._controller.show(session)
        else:
            self._controller.session = session
            self._controller.show_results()

    def resume(self, name: str) -> None:
        """Resume a stopped run or sweep; show it if another process is working on it."""
        if is_sweep_id(name):
            self._controller.sweeps.resume(name)
            return
        run = self._find(name, check_resumable)
        if run is None:
            return
        if run.is_active():
            self.open(name)
        elif not self._controller.refuse_if_busy():
            self._controller.run(run)

    def _find(self, name: str, check: Callable[[Header], None] = lambda _: None) -> Run | None:
        """Return the run, or None after showing why it cannot be read or does not pass `check`."""
        try:
            run = self._app_interface.context.store.find(name)
            check(run.header())
            run.state()
        except UserError as error:
            self._app_interface.show_error(error)
            return None
        return run
