"""Show, pause, cancel and leave the run of the screens, and show its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.domain.answer import Answer
from advisor.domain.run import resume_command
from advisor.errors import UserError
from advisor.report.sections.answer import headline
from advisor.report.sweeps import sweep_text
from advisor.store.runs import Run
from advisor.tui.answer import RunAnswer
from advisor.tui.dialogs.questions import CancelDialog, QuitDialog
from advisor.tui.rendering import text
from advisor.tui.run.host_process import HostProcess
from advisor.tui.run.session import NOT_CONTROLLED_MESSAGE, RunSession
from advisor.tui.run.sweep_view import SweepView, read_sweep
from advisor.tui.screens.live import LiveScreen
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.screens.sweep import SweepScreen

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp

#: Characters of an answer in the shell.
MAX_ANSWER = 300
BUSY_MESSAGE = "a run is in progress; cancel it or wait until it ends"


class RunController:
    """Controls the run that is shown; this program owns at most one host process at a time."""

    def __init__(
        self, app: AdvisorApp, start_host: Callable[[Run], HostProcess] | None = None
    ) -> None:
        self._app = app
        self._start_host = start_host or HostProcess
        self.session: RunSession | None = None
        #: The last answer that was shown, and the run or sweep that was left to itself.
        self._answer: RunAnswer | SweepView | None = None
        self._left_run = ""

    @property
    def owned_host(self) -> HostProcess | None:
        """The host process that this program started, while it is running."""
        host = self.session.host if self.session is not None else None
        return host if host is not None and host.is_running else None

    def status(self) -> str:
        """Return the status of the run for the title bar, empty if no run is going on."""
        if self.session is None or not self.session.is_going_on:
            return ""
        state = "paused" if self.session.is_paused else "going on"
        return f" run {self.session.follower.run.directory.name[-4:]} {state}: ^g "

    def description(self) -> str:
        """Return which run is going on, as a sentence; empty if none is."""
        if self.session is None or not self.session.is_controlled:
            return ""
        state = "is paused" if self.session.is_paused else "is going on"
        return f"Run {self.session.follower.run.directory.name[-4:]} {state}."

    def refuse_if_busy(self) -> bool:
        """Return whether this program runs a run already, after notifying the user."""
        if self.owned_host is not None:
            self._app.notify(BUSY_MESSAGE, severity="warning", markup=False)
        return self.owned_host is not None

    def run(self, run: Run) -> None:
        """Start the host process of a run, and of the runs after it in a sweep; show it."""
        sweep = self._app.context.store.sweeps.find_of_run(run.directory.name)
        self.show(RunSession.for_run(run, self._start_host(run), sweep))

    def replay(self, directory: str, speed: float) -> None:
        self.show(RunSession.replay(directory, speed))

    def show(self, session: RunSession) -> None:
        self.session = session
        self._app.action_home()
        self._app.push_screen(LiveScreen())
        self._refresh(session)

    def show_current(self) -> bool:
        """Show the run that is going on; return whether there is one."""
        if self.session is None or not self.session.is_going_on:
            return False
        if not isinstance(self._app.screen, LiveScreen):
            self._app.action_home()
            self._app.push_screen(LiveScreen())
        return True

    def _refresh(self, session: RunSession) -> None:
        """Read and draw new events, and schedule the next refresh.

        After a run of a sweep the session of the next one replaces it.
        """
        is_replaced = session is not self.session
        if is_replaced or not self._app.screen_stack:  # without screens, the program is ending
            return
        try:
            session.refresh()
            following = session.next_in_sweep(self._app.context.store)
        except UserError as error:
            self._app.show_error(error)
            return
        if following is not None:
            self.session = following
            self._refresh(following)
            return
        if isinstance(self._app.screen, LiveScreen):
            self._app.screen.draw()
        if session.is_finished and not session.awaits_next_run:
            self._app.call_later(self._show_end)
            return
        rank = session.ranking_job(asyncio.get_running_loop().time())
        if rank is not None:
            self._app.background.start("rank", rank, session.set_provisional)
        self._app.set_timer(session.refresh_interval_seconds, lambda: self._refresh(session))

    def _show_end(self) -> None:
        """Show the results of the run that has ended, or those of its sweep."""
        session = self.session
        if session is None or session.sweep is None:
            self.show_results()
            return
        sweep_id, store = session.sweep.sweep_id, self._app.context.store

        def show(view: SweepView) -> None:
            self.show_sweep(view)
            reason = session.failure_reason()
            if session.is_finished and not view.document.finished and reason:
                self._app.notify(reason, severity="error", markup=False)

        self._app.background.start("results", lambda: read_sweep(sweep_id, store), show)

    def show_results(self) -> None:
        """Decide from the current state of the run and show the decision."""
        if self.session is not None:
            self.show_decided(self.session.decide, self.session.follower.run)

    def show_decided(self, decide_run: Callable[[], Answer], run: Run) -> None:
        """Decide on a run in the background and show the answer."""

        def decide() -> RunAnswer:
            return RunAnswer(decide_run(), run.header().catalogue, run)

        self._app.background.start("results", decide, self.show_answer)

    def show_answer(self, answer: RunAnswer) -> None:
        """Show the answer of a run in place of the current screens, or above its sweep."""
        self._answer = answer
        screen = self._app.screen
        if not (isinstance(screen, SweepScreen) and screen.has_run(answer.document.run_id)):
            self._app.action_home()
        self._app.push_screen(ResultsScreen(answer))

    def show_sweep(self, view: SweepView) -> None:
        """Show a sweep in place of the current screens."""
        self._answer = view
        self._app.action_home()
        self._app.push_screen(SweepScreen(view))

    def toggle_pause(self) -> None:
        """Pause the run after the current timed section, or continue it."""
        try:
            if self.session is None or not self.session.toggle_pause():
                self._app.notify(NOT_CONTROLLED_MESSAGE, markup=False)
        except UserError as error:
            self._app.show_error(error)

    def ask_to_cancel(self) -> None:
        """End the run after a confirmation; then show the results so far."""

        def on_answer(confirmed: bool | None) -> None:  # noqa: FBT001 - Textual's callback
            if not confirmed or self.session is None:
                return
            try:
                self.session.cancel()
            except UserError as error:
                self._app.show_error(error)
            else:
                self._show_end()

        if self.session is not None and not self.session.is_running:
            self._show_end()
        elif self.session is None or not self.session.is_controlled:
            self._app.notify(NOT_CONTROLLED_MESSAGE, markup=False)
        elif not isinstance(self._app.screen, CancelDialog):
            self._app.push_screen(CancelDialog(), on_answer)

    def ask_to_leave(self) -> None:
        """End the program; while a run goes on, only after a confirmation."""
        if self.owned_host is None:
            self._app.shut_down(0)
            return

        def on_answer(choice: str | None) -> None:
            if choice == "keep":
                self.detach()
            if choice:
                self._app.shut_down(0 if choice == "keep" else 130)

        if not isinstance(self._app.screen, QuitDialog):
            self._app.push_screen(QuitDialog(self.description()), on_answer)

    def exit_message(self) -> str:
        """Return a line for the shell: how to come back to a run, or the last answer."""
        if self._left_run:
            return f"The run goes on. p3-advisor ask --open {self._left_run} shows it."
        if self.session is not None and not self.session.is_finished and not self.session.is_replay:
            return f"The run was stopped. {resume_command(self._shown_id(self.session))}"
        answer = self._answer
        if isinstance(answer, SweepView):
            line = text.printable(sweep_text.answer(answer.document)[0], MAX_ANSWER)
            return f"{line} p3-advisor show {answer.document.sweep_id}"
        if answer is None:
            return ""
        is_stored = answer.run is not None
        shown = f" p3-advisor show {answer.document.run_id}" if is_stored else ""
        return f"{text.printable(headline(answer.document), MAX_ANSWER)}{shown}"

    @staticmethod
    def _shown_id(session: RunSession) -> str:
        """Return the id of the sweep that is shown, or that of the run."""
        return session.sweep.sweep_id if session.sweep else session.follower.header.run_id

    def detach(self) -> None:
        """Let the run continue without this program."""
        if self.owned_host is not None and self.session is not None:
            if self.session.is_paused or self.session.is_pause_requested:
                self.session.toggle_pause()
            self.owned_host.detach()
            self._left_run = self._shown_id(self.session)
            self.session = None

    def terminate(self) -> None:
        if self.owned_host is not None:
            self.owned_host.terminate()
