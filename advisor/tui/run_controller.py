"""Show, pause, cancel and leave the run of the screens, and show its answer."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING

from advisor.decide.answers import answer_from_state
from advisor.domain.answer import Answer
from advisor.domain.errors import UserError
from advisor.execute import execution
from advisor.report.answer_files import answer_of_run, is_file, open_answer
from advisor.report.headline import first_line
from advisor.store.runs import Run
from advisor.tui import actions, followed_run, panels
from advisor.tui.answer_panes import ShownAnswer
from advisor.tui.dialogs import quit_dialog, yes_or_no
from advisor.tui.live import LiveScreen
from advisor.tui.results import ResultsScreen

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp

#: Characters of an answer in the shell.
MAX_ANSWER = 300
BUSY_MESSAGE = "a run is in progress ({}); cancel it or wait until it ends"


class RunController:
    """Controls the run that is shown; this program owns at most one runner at a time."""

    def __init__(
        self, app: AdvisorApp, start_runner: followed_run.StartRunner | None = None
    ) -> None:
        self._app = app
        self._start_runner = start_runner or followed_run.RunnerProcess
        self.followed: followed_run.FollowedRun | None = None
        #: The last answer of a run that was shown, and the run that was left to itself.
        self._shown: ShownAnswer | None = None
        self._left_run = ""

    @property
    def owned_runner(self) -> followed_run.RunnerProcess | None:
        runner = self.followed.runner if self.followed is not None else None
        return runner if runner is not None and runner.is_running else None

    def status(self) -> str:
        """Return the status of a run for the title bar, empty if none goes on or it is shown."""
        # While the program ends, there are no screens; a dialog covers only a part of one.
        screens = [each for each in self._app.screen_stack if not each.is_modal]
        is_shown = any(isinstance(each, LiveScreen) for each in screens[-1:])
        if is_shown or self.followed is None or not self.followed.is_running:
            return ""
        state = "paused" if self.followed.is_paused else "going on"
        return f" run {self.followed.run.directory.name[-4:]} {state}: ^g "

    def refuse_if_busy(self) -> bool:
        """Return whether a run goes on, here or in another program, after notifying the user."""
        active = self._app.context.store.active_ids()
        if self.owned_runner is not None and self.followed is not None:
            # A runner that has just been started does not hold the run yet.
            active = active or [self.followed.run.directory.name]
        if active:
            self._app.notify(BUSY_MESSAGE.format(" and ".join(active)), severity="warning")
        return bool(active)

    def open(self, name: str) -> None:
        context, catalogue = self._app.context, self._app.catalogue

        def read() -> ShownAnswer:
            answer = open_answer(name, context)
            return ShownAnswer(answer, catalogue.for_question(answer.question), file=name)

        if is_file(name):
            self._app.background.start("results", read, self.show_answer)
            return
        with self._app.showing_errors():
            self._open_run(self._find(name))

    def _open_run(self, run: Run) -> None:
        followed = self.followed
        if followed is not None and followed.is_running and followed.run.directory == run.directory:
            self.show(followed)
        elif not run.is_active():
            catalogue = run.header().catalogue
            self._app.background.start(
                "results", lambda: ShownAnswer(answer_of_run(run), catalogue, run), self.show_answer
            )
        elif self.owned_runner is None or not self.refuse_if_busy():
            self.show(followed_run.FollowedRun(run))

    def resume(self, name: str) -> None:
        run = self._find(name)
        execution.refuse_foreign(run.header())
        if run.is_active():
            self._open_run(run)
        else:
            actions.resume(self._app, run)

    def _find(self, name: str) -> Run:
        """Return the run; raise the error of one that cannot be read."""
        run = self._app.context.store.find(name)
        run.header()
        run.state()
        return run

    def run(self, run: Run, wait_seconds: float | None = None) -> None:
        self.show(followed_run.FollowedRun(run, self._start_runner(run, wait_seconds)))

    def show(self, followed: followed_run.FollowedRun) -> None:
        self.followed = followed
        self._app.action_home()
        self._app.push_screen(LiveScreen())
        self._refresh(followed)

    def show_current(self) -> bool:
        """Show the run that is going on; return whether there is one."""
        if self.followed is None or not self.followed.is_running:
            return False
        if not isinstance(self._app.screen, LiveScreen):
            self._app.action_home()
            self._app.push_screen(LiveScreen())
        return True

    def _refresh(self, followed: followed_run.FollowedRun) -> None:
        is_replaced = followed is not self.followed
        if is_replaced or not self._app.screen_stack:  # without screens, the program is ending
            return
        try:
            followed.refresh()
        except UserError as error:
            self._app.show_error(error)
            return
        if isinstance(self._app.screen, LiveScreen):
            self._app.screen.draw()
        if followed.is_finished:
            self._app.call_later(self.show_results)
            return
        rank = followed.ranking_job(asyncio.get_running_loop().time())
        if rank is not None:
            self._app.background.start("rank", rank, followed.set_provisional)
        self._app.set_timer(followed_run.REFRESH_SECONDS, lambda: self._refresh(followed))

    def show_results(self) -> None:
        """Delete a run whose model was refused, and ask its question again."""
        if self.followed is None:
            return
        followed = self.followed

        def end_run() -> tuple[Answer, bool]:
            answer = answer_from_state(followed.header, followed.state)
            return answer, execution.drop_refused(followed.run, self._app.context)

        def show(decided: tuple[Answer, bool]) -> None:
            answer, is_gone = decided
            if is_gone:
                self.followed = None
                self._app.action_new_question()
                self._app.call_after_refresh(self._app.setup_screen.show_error, answer.problem)
            else:
                self.show_answer(ShownAnswer(answer, followed.header.catalogue, followed.run))

        self._app.background.start("results", end_run, show)

    def show_answer(self, shown: ShownAnswer) -> None:
        if not shown.file:
            self._shown = shown
        self._app.action_home()
        self._app.push_screen(ResultsScreen(shown))

    def show_absent_gpu(self, answer: Answer) -> None:
        """Show an answer from figures of elsewhere; esc goes back to the questions."""
        self._app.clear_notifications()  # they would cover the answer
        self._app.push_screen(ResultsScreen(ShownAnswer(answer, self._app.catalogue)))

    def toggle_pause(self) -> None:
        with self._app.showing_errors():
            if self.followed is not None:
                self.followed.toggle_pause()

    def ask_to_cancel(self) -> None:
        followed = self.followed

        def cancel() -> None:
            if followed is not None:
                followed.cancel()
                self.show_results()

        if followed is None:
            self._app.notify(followed_run.NOT_CONTROLLED_MESSAGE)
        elif not followed.is_running:
            self.show_results()
        else:
            question = "Cancel this run?  Its measurements are kept, and it can be resumed."
            dialog = yes_or_no(question, "Cancel the run", "Continue", keys="y,x")
            self._app.confirm(dialog, cancel)

    def ask_to_leave(self) -> None:
        followed = self.followed
        if self.owned_runner is None or followed is None:
            self._app.shut_down(0)
            return

        def on_answer(choice: str | None) -> None:
            if choice == "keep":
                self.detach()
            if choice:
                self._app.shut_down(0 if choice == "keep" else 130)

        state = "is paused" if followed.is_paused else "is going on"
        name = followed.run.directory.name
        self._app.ask(quit_dialog(f"Run {name[-4:]} {state}."), on_answer)

    def exit_message(self) -> str:
        """Return what the shell shows after the screens; empty where no run was shown."""
        followed, shown, left = self.followed, self._shown, self._left_run
        if followed is not None and not left:
            name = self._name_of(followed.run)
            if followed.run.is_active():
                left = name
            elif not followed.is_finished:
                return f"The run was stopped. Resume it: p3-advisor resume {name}"
            elif shown is None:
                return f"The run has ended. Show it: p3-advisor show {name}"
        if left:
            return f"The run goes on. Show it: p3-advisor ask --open {left}"
        if shown is None or shown.run is None:
            return ""
        answer, advice = shown.answer, shown.answer.recommendation
        word = f"{advice.decision.word}. " if advice and advice.decision.word else ""
        told = panels.printable(first_line(answer), MAX_ANSWER)
        is_whole = answer.finished or answer.foreign
        command = "Show it: p3-advisor show" if is_whole else "Resume it: p3-advisor resume"
        return f"{word}{told}\n{command} {self._name_of(shown.run)}"

    def _name_of(self, run: Run) -> str:
        """Return a run as commands take it: its id, or its directory outside the store."""
        is_stored = self._app.context.store.run(run.directory.name).directory == run.directory
        return run.directory.name if is_stored else shlex.quote(str(run.directory))

    def detach(self) -> None:
        if self.owned_runner is not None and self.followed is not None:
            if self.followed.is_paused or self.followed.is_pause_requested:
                self.followed.toggle_pause()
            self.owned_runner.detach()
            self._left_run = self.followed.header.run_id
            self.followed = None

    def terminate(self) -> None:
        if self.owned_runner is not None:
            self.owned_runner.terminate()
