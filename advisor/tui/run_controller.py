"""Start, show, pause, cancel, resume and export the run that the screens show."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Callable
from typing import cast

from textual.app import App

from advisor.domain.run import Header
from advisor.errors import UserError
from advisor.pipeline.decision import Decision, decide
from advisor.pipeline.draft import DraftRun, create
from advisor.pipeline.execution import check_resumable
from advisor.report.document import RunDocument
from advisor.report.measured_document import compose as compose_document
from advisor.store import Run
from advisor.tui.dialogs.confirmations import CancelDialog
from advisor.tui.dialogs.export_dialog import ExportDialog
from advisor.tui.interfaces import AppInterface
from advisor.tui.run.comparison import RunComparison, compare_runs
from advisor.tui.run.export import RENDERERS, write_document
from advisor.tui.run.host_process import HostProcess
from advisor.tui.run.retry import failed_arms, propose_retry
from advisor.tui.run.session import NOT_OWNED_MESSAGE, RunSession
from advisor.tui.screens.absent_gpu import AbsentGpuScreen
from advisor.tui.screens.compare import CompareScreen
from advisor.tui.screens.live import LiveScreen
from advisor.tui.screens.results import ResultsScreen

BUSY_MESSAGE = "a run is in progress; cancel it or wait until it ends"


class RunController:
    """Controls the run that is shown; this program owns at most one host process at a time."""

    def __init__(
        self, app: App[int], start_host: Callable[[Run], HostProcess] = HostProcess
    ) -> None:
        self._app = app
        self._app_interface = cast("AppInterface", app)
        self._start_host = start_host
        self.session: RunSession | None = None

    @property
    def owned_host(self) -> HostProcess | None:
        """The host process that this program started, while it is running."""
        host = self.session.host if self.session is not None else None
        return host if host is not None and host.is_running else None

    def status(self) -> str:
        """Return the status of the run for the title bar, empty if no run is in progress."""
        if self.session is None or self.session.is_finished or not self.session.is_running:
            return ""
        return f"run {self.session.follower.run.directory.name[-4:]} in progress "

    def start(self, draft: Callable[[], DraftRun | RunDocument]) -> None:
        """Create a run from a draft and start it; show the answer for a GPU that is absent."""
        if self._is_busy():
            return
        self._app.notify("making the plan ...", timeout=2, markup=False)

        def create_run() -> Run | RunDocument:
            drafted = draft()
            if isinstance(drafted, RunDocument):
                return drafted
            return create(drafted, self._app_interface.context)

        def show(created: Run | RunDocument) -> None:
            if isinstance(created, RunDocument):
                self.show_absent_gpu_answer(created)
            else:
                self._start_run(created)

        self._app_interface.background.start("start", create_run, show)

    def show_absent_gpu_answer(self, document: RunDocument) -> None:
        """Show the answer for a GPU that is not attached."""
        self._app.push_screen(AbsentGpuScreen(document))

    def retry_failed(self, decision: Decision) -> None:
        """Measure the failed arms of a run again.

        They are measured in a new run, because times of two runs must not be ranked together.
        """
        failed = failed_arms(decision)
        if failed:
            self.start(lambda: propose_retry(decision.header, failed))

    def _is_busy(self) -> bool:
        """Return whether a run is in progress, after notifying the user."""
        if self.owned_host is not None:
            self._app.notify(BUSY_MESSAGE, severity="warning", markup=False)
        return self.owned_host is not None

    def _start_run(self, run: Run) -> None:
        self.show(RunSession.for_run(run, self._start_host(run)))

    def replay(self, directory: str, speed: float) -> None:
        """Play a recorded run back."""
        self.show(RunSession.replay(directory, speed))

    def show(self, session: RunSession) -> None:
        """Show the progress of a run."""
        self.session = session
        self._app_interface.action_setup()
        self._app.push_screen(LiveScreen())
        self._refresh(session)

    def _refresh(self, session: RunSession) -> None:
        """Read and draw new events, and schedule the next refresh."""
        is_replaced = session is not self.session
        if is_replaced or not self._app.screen_stack:  # without screens, the program is ending
            return
        try:
            session.refresh()
        except UserError as error:
            self._app_interface.show_error(error)
            return
        if isinstance(self._app.screen, LiveScreen):
            self._app.screen.draw()
        if session.is_finished:
            self._app.call_later(self.show_results)
            return
        rank = session.ranking_job(asyncio.get_running_loop().time())
        if rank is not None:
            self._app_interface.background.start("rank", rank, session.set_provisional)
        self._app.set_timer(session.refresh_interval_seconds, lambda: self._refresh(session))

    def show_results(self) -> None:
        """Decide from the current state of the run and show the decision."""
        if self.session is not None:
            self._app_interface.background.start("results", self.session.decide, self.show_decision)

    def show_decision(self, decision: Decision) -> None:
        """Show results in place of the current screens."""
        self._app_interface.action_setup()
        self._app.push_screen(ResultsScreen(decision))

    def open(self, run_id: str) -> None:
        """Show the results of a stored run, or its progress if it is running."""
        run = self._find(run_id)
        if run is None:
            return
        if (
            self.owned_host is not None
            and self.session is not None
            and self.session.follower.run.directory == run.directory
        ):
            self.show(self.session)
        elif not self._is_busy():
            self._open(run)

    def _open(self, run: Run) -> None:
        try:
            session = RunSession.for_run(run)
            session.refresh()
        except UserError as error:
            self._app_interface.show_error(error)
            return
        if session.is_running:
            self.show(session)
        else:
            self.session = session
            self.show_results()

    def resume(self, run_id: str) -> None:
        """Resume a stopped run; show it if another process is working on it."""
        run = self._find(run_id, check_resumable)
        if run is None:
            return
        if run.is_active():
            self.open(run_id)
        elif not self._is_busy():
            self._start_run(run)

    def _find(self, run_id: str, check: Callable[[Header], None] = lambda _: None) -> Run | None:
        """Return the run, or None after showing why it cannot be read or does not pass `check`."""
        try:
            run = self._app_interface.context.store.find(run_id)
            check(run.header())
            run.state()
        except UserError as error:
            self._app_interface.show_error(error)
            return None
        return run

    def compare(self, first: str, second: str) -> None:
        """Show the comparison of two stored runs."""
        store = self._app_interface.context.store

        def compare_stored() -> RunComparison:
            return compare_runs(
                *(compose_document(decide(store.find(name))) for name in (first, second))
            )

        self._app_interface.background.start(
            "compare", compare_stored, lambda found: self._app.push_screen(CompareScreen(found))
        )

    def export(
        self, document: RunDocument, decision: Decision | None = None, *, explored: bool = False
    ) -> None:
        """Write a document, with the script of its `decision`, to a file that the user names."""

        def make_script() -> str | None:
            from advisor.report import recipe  # noqa: PLC0415 - most sessions export nothing

            probes = self._app_interface.context.probes
            return recipe.render_recommended(document, decision, probes) if decision else None

        def write(file: pathlib.Path | None) -> None:
            if file is None:
                return
            try:
                write_document(document, file, make_script)
            except UserError as error:
                self._app_interface.show_error(error)
            else:
                self._app.notify(f"written: {file.absolute()}", markup=False)

        name = f"p3-advisor-{document.run_id}{'-explored' if explored else ''}.html"
        self._app.push_screen(ExportDialog(pathlib.Path.cwd() / name, list(RENDERERS)), write)

    def toggle_pause(self) -> None:
        """Pause the run after the current timed section, or continue it."""
        if self.session is None or not self.session.toggle_pause():
            self._app.notify(NOT_OWNED_MESSAGE, markup=False)

    def ask_to_cancel(self) -> None:
        """End the run after a confirmation; then show the results so far."""

        def on_answer(confirmed: bool | None) -> None:  # noqa: FBT001 - Textual's callback
            if confirmed and self.owned_host is not None:
                self.owned_host.cancel()
            if confirmed:
                self.show_results()

        if self.session is not None and not self.session.is_running:
            self.show_results()
        elif self.owned_host is None:
            self._app.notify(NOT_OWNED_MESSAGE, markup=False)
        else:
            self._app.push_screen(CancelDialog(), on_answer)

    def detach(self) -> None:
        """Let the run continue without this program."""
        if self.owned_host is not None:
            self.owned_host.detach()
            self.session = None

    def terminate(self) -> None:
        """End the host process."""
        if self.owned_host is not None:
            self.owned_host.terminate()
