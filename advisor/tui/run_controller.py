"""Start, show, pause, cancel, resume and export the run that the screens show."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
from collections.abc import Callable
from typing import cast

import msgspec
from textual.app import App

from advisor.domain.machine import LoadProblem
from advisor.domain.run import Header, resume_command
from advisor.errors import UserError
from advisor.pipeline.decision import Decision, decide
from advisor.pipeline.draft import DraftRun, create
from advisor.pipeline.execution import check_resumable
from advisor.report.document import RunDocument
from advisor.report.measured_document import compose as compose_document
from advisor.report.opening import is_document, read_document
from advisor.report.text_report import headline
from advisor.store import Run
from advisor.system.import_path import ADVISOR_COMMAND
from advisor.tui.answer import RunAnswer
from advisor.tui.dialogs.code_dialog import CodeDialog
from advisor.tui.dialogs.confirmations import CancelDialog
from advisor.tui.dialogs.export_dialog import ExportDialog
from advisor.tui.dialogs.load_dialog import LoadDialog
from advisor.tui.dialogs.verify_dialog import VerifyDialog
from advisor.tui.interfaces import AppInterface
from advisor.tui.rendering.text import printable
from advisor.tui.run.comparison import RunComparison, compare_runs
from advisor.tui.run.export import RENDERERS, write_document
from advisor.tui.run.host_process import HostProcess
from advisor.tui.run.machine_check import find_load_problems
from advisor.tui.run.retry import (
    failed_arms,
    longer_budget,
    propose_retry,
    undecided_workflows,
)
from advisor.tui.run.session import NOT_CONTROLLED_MESSAGE, RunSession
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
        #: The last answer that was shown, and the run that was left to itself.
        self._answer: RunAnswer | None = None
        self._left_run = ""

    @property
    def owned_host(self) -> HostProcess | None:
        """The host process that this program started, while it is running."""
        host = self.session.host if self.session is not None else None
        return host if host is not None and host.is_running else None

    def status(self) -> str:
        """Return the status of the run for the title bar, empty if no run is going on."""
        if self.session is None or self.session.is_finished or not self.session.is_running:
            return ""
        state = "paused" if self.session.is_paused else "going on"
        return f" run {self.session.follower.run.directory.name[-4:]} {state}: ^g "

    def description(self) -> str:
        """Return which run is going on, as a sentence; empty if none is."""
        if self.session is None or not self.session.is_controlled:
            return ""
        state = "is paused" if self.session.is_paused else "is going on"
        return f"Run {self.session.follower.run.directory.name[-4:]} {state}."

    def start(self, draft: Callable[[], DraftRun | RunDocument]) -> None:
        """Create a run from a draft and start it; show the answer for a GPU that is absent."""
        if self._is_busy():
            return
        self._app.notify("making the plan ...", timeout=2, markup=False)

        context = self._app_interface.context

        def check() -> tuple[DraftRun | RunDocument, tuple[LoadProblem, ...]]:
            drafted = draft()
            if isinstance(drafted, RunDocument):
                return drafted, ()
            return drafted, find_load_problems(drafted, context)

        def show(checked: tuple[DraftRun | RunDocument, tuple[LoadProblem, ...]]) -> None:
            drafted, problems = checked
            if isinstance(drafted, RunDocument):
                self.show_absent_gpu_answer(drafted)
            elif problems and not drafted.question.wait_seconds:
                self._ask_to_wait(drafted, problems)
            else:
                self._create_and_start(drafted)

        self._app_interface.background.start("start", check, show)

    def _ask_to_wait(self, drafted: DraftRun, problems: tuple[LoadProblem, ...]) -> None:
        """Start the run on a busy machine only if the user chooses so."""

        def on_answer(wait_seconds: float | None) -> None:
            if wait_seconds is not None:
                question = msgspec.structs.replace(drafted.question, wait_seconds=wait_seconds)
                self._create_and_start(dataclasses.replace(drafted, question=question))

        self._app.push_screen(LoadDialog(problems), on_answer)

    def _create_and_start(self, drafted: DraftRun) -> None:
        context = self._app_interface.context
        self._app_interface.background.start(
            "create", lambda: create(drafted, context), self._start_run
        )

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

    def measure_again(self, answer: RunAnswer) -> None:
        """Measure what an answer leaves undecided for longer, in a new run."""
        if answer.decision is None:
            return
        header, workflows = answer.decision.header, undecided_workflows(answer)
        budget = longer_budget(answer)
        names = ", ".join(workflows) or "all workflows"
        self._app.notify(f"measuring {names} for {budget.measuring_seconds:g} s", markup=False)
        self.start(lambda: propose_retry(header, workflows, budget))

    def show_code(self, answer: RunAnswer, arm: str) -> None:
        """Show the script that does what was measured."""
        decision, probes = answer.decision, self._app_interface.context.probes
        if decision is None:
            return

        def compose_script() -> str:
            from advisor.report import recipe  # noqa: PLC0415 - most sessions need no script

            entry, found = recipe.choose(answer.document, decision, arm, probes)
            return recipe.render(answer.document, entry, found)

        self._app_interface.background.start(
            "code", compose_script, lambda script: self._app.push_screen(CodeDialog(arm, script))
        )

    def verify(self, answer: RunAnswer, arm: str) -> None:
        """Run the script of an arm and check that it reaches the measured speed."""
        if answer.decision is None or self._is_busy():
            return
        command = (*ADVISOR_COMMAND, "verify", answer.document.run_id, "--workflow", arm)
        environment = self._app_interface.context.environment
        self._app.push_screen(VerifyDialog(arm, " ".join(command[4:]), command, environment))

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
        self._app_interface.action_home()
        self._app.push_screen(LiveScreen())
        self._refresh(session)

    def show_current(self) -> bool:
        """Show the run that is going on; return whether there is one."""
        if self.session is None or self.session.is_finished or not self.session.is_running:
            return False
        if not isinstance(self._app.screen, LiveScreen):
            self._app_interface.action_home()
            self._app.push_screen(LiveScreen())
        return True

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
        self.show_answer(RunAnswer.of_decision(decision))

    def show_answer(self, answer: RunAnswer) -> None:
        """Show the answer of a run in place of the current screens."""
        self._answer = answer
        self._app_interface.action_home()
        self._app.push_screen(ResultsScreen(answer))

    def open(self, run_id: str) -> None:
        """Show the results of a stored run or run document, or the progress of a running run."""
        if is_document(run_id):
            self._open_document(run_id)
            return
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

    def _open_document(self, file: str) -> None:
        catalogue = self._app_interface.catalogue
        self._app_interface.background.start(
            "results",
            lambda: RunAnswer.of_document(read_document(file), catalogue),
            self.show_answer,
        )

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

        def compare_stored() -> RunComparison:
            return compare_runs(self._decide_again(first), self._decide_again(second))

        self._app_interface.background.start(
            "compare", compare_stored, lambda found: self._app.push_screen(CompareScreen(found))
        )

    def _decide_again(self, name: str) -> RunDocument:
        """Return the document of a stored run or of a file."""
        if is_document(name):
            catalogue = self._app_interface.catalogue
            return RunAnswer.of_document(read_document(name), catalogue).document
        return compose_document(decide(self._app_interface.context.store.find(name)))

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
        try:
            if self.session is None or not self.session.toggle_pause():
                self._app.notify(NOT_CONTROLLED_MESSAGE, markup=False)
        except UserError as error:
            self._app_interface.show_error(error)

    def ask_to_cancel(self) -> None:
        """End the run after a confirmation; then show the results so far."""

        def on_answer(confirmed: bool | None) -> None:  # noqa: FBT001 - Textual's callback
            if not confirmed or self.session is None:
                return
            try:
                self.session.cancel()
            except UserError as error:
                self._app_interface.show_error(error)
            else:
                self.show_results()

        if self.session is not None and not self.session.is_running:
            self.show_results()
        elif self.session is None or not self.session.is_controlled:
            self._app.notify(NOT_CONTROLLED_MESSAGE, markup=False)
        elif not isinstance(self._app.screen, CancelDialog):
            self._app.push_screen(CancelDialog(), on_answer)

    def farewell(self) -> str:
        """Return a line for the shell: how to come back to a run, or the last answer."""
        if self._left_run:
            return f"The run goes on. p3-advisor ask --open {self._left_run} shows it."
        if self.session is not None and not self.session.is_finished and not self.session.is_replay:
            return f"The run was stopped. {resume_command(self.session.follower.header.run_id)}"
        if self._answer is None:
            return ""
        document = self._answer.document
        shown = f" p3-advisor show {document.run_id}" if self._answer.decision is not None else ""
        return f"{printable(headline(document), 300)}{shown}"

    def detach(self) -> None:
        """Let the run continue without this program."""
        if self.owned_host is not None and self.session is not None:
            if self.session.is_paused or self.session.is_pause_requested:
                self.session.toggle_pause()
            self.owned_host.detach()
            self._left_run = self.session.follower.run.directory.name
            self.session = None

    def terminate(self) -> None:
        """End the host process."""
        if self.owned_host is not None:
            self.owned_host.terminate()
