"""The Textual app: holds the answers, knows the machine, and starts and ends the program."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import pathlib
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.notifications import SeverityLevel

from advisor.catalogue import rubric_files
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.errors import DefectError, UserError
from advisor.question.answers import Answers
from advisor.question.sweep import LengthAnswers
from advisor.tui.appearance import Appearance
from advisor.tui.background import BackgroundTasks
from advisor.tui.navigation import NavigatedApp
from advisor.tui.options import LaunchOptions
from advisor.tui.rendering import text
from advisor.tui.screens.home import HomeScreen
from advisor.tui.unfinished_offer import UnfinishedOffer

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.store.runs import Run
    from advisor.tui.answer_actions import AnswerActions
    from advisor.tui.run.host_process import HostProcess
    from advisor.tui.run.unfinished import UnfinishedRun
    from advisor.tui.run_controller import RunController
    from advisor.tui.run_opener import RunOpener
    from advisor.tui.run_starter import RunStarter

#: Characters of a notification.
MAX_MESSAGE = 600


class AdvisorApp(NavigatedApp):
    """The terminal program.

    Stages are imported when they are needed, so that the first screen appears quickly.
    """

    CSS_PATH = "styles.tcss"
    TITLE = "p3-advisor"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "Quit", priority=True, show=False),
        Binding("ctrl+g", "go_on", "Run", show=False, id="go-on"),
        Binding("H", "history", "History", show=False, id="history"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, priority=True),
    ]

    def __init__(
        self,
        launch_options: LaunchOptions,
        context: Context,
        *,
        start_host: Callable[[Run], HostProcess] | None = None,
        settings_file: pathlib.Path | None = None,
    ) -> None:
        """Read `settings_file`; a theme that the user chooses later is saved there."""
        no_color = launch_options.no_color or bool(context.environment.get("NO_COLOR"))
        if launch_options.no_color:
            os.environ["NO_COLOR"] = "1"  # Textual has no other option for this
        super().__init__(ansi_color=True if no_color else None)
        self.launch_options, self.context = launch_options, context
        self.answers: Answers = launch_options.answers
        self.lengths: LengthAnswers = launch_options.lengths or LengthAnswers.of(self.answers)
        self.machine: Machine | None = None
        self.defect: DefectError | None = None
        self.background = BackgroundTasks(self._call_in_app, self.show_error)
        self._run_controller: RunController | None = None
        self.unfinished_offer = UnfinishedOffer(self, self._show_unfinished_run)
        self._start_host = start_host
        self._appearance = Appearance(self, launch_options, settings_file, no_color=no_color)

    def _call_in_app(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the thread of the screens, unless the program is ending.

        Callable from any thread.
        """
        self.call_later(lambda: function(*arguments) if self.screen_stack else None)

    @functools.cached_property
    def catalogue(self) -> Catalogue:
        """The models, workflows and presets, read on first use: the first screen needs none."""
        return rubric_files.load(self.context.rubric, probes=self.context.probes)

    @property
    def run_controller(self) -> RunController:
        """The controller of the run, created on first use."""
        if self._run_controller is None:
            from advisor.tui import run_controller  # noqa: PLC0415 - see the class

            self._run_controller = run_controller.RunController(self, self._start_host)
        return self._run_controller

    @functools.cached_property
    def run_opener(self) -> RunOpener:
        """Opens stored runs, sweeps and documents."""
        from advisor.tui.run_opener import RunOpener  # noqa: PLC0415 - see the class

        return RunOpener(self, self.run_controller)

    @functools.cached_property
    def run_starter(self) -> RunStarter:
        """Makes plans and starts runs."""
        from advisor.tui.run_starter import RunStarter  # noqa: PLC0415 - see the class

        return RunStarter(self)

    @functools.cached_property
    def answer_actions(self) -> AnswerActions:
        """The actions on a finished answer."""
        from advisor.tui.answer_actions import AnswerActions  # noqa: PLC0415 - see the class

        return AnswerActions(self)

    def run_status(self) -> str:
        return self._run_controller.status() if self._run_controller is not None else ""

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            # Only the main thread can handle signals; tests run the app in others.
            with contextlib.suppress(ValueError, RuntimeError):
                loop.add_signal_handler(number, self.shut_down, 128 + number)
        self._appearance.apply(self.show_error)
        self.call_after_refresh(self._start_background_work)

    def _start_background_work(self) -> None:
        """Do the work that the first screen does not wait for."""
        if self.launch_options.replay:
            self.run_controller.replay(self.launch_options.replay, self.launch_options.speed)
            return
        if self.launch_options.open:
            self.run_opener.open(self.launch_options.open)
        elif self.launch_options.lengths is not None or self.answers != Answers():
            self.action_setup()
        self.background.start("machine", self._detect_machine, self._show_machine)

    def _detect_machine(self) -> Machine:
        from advisor.applicability import installation  # noqa: PLC0415 - see the class
        from advisor.machine import detection  # noqa: PLC0415 - see the class
        from advisor.question.resolve import worker_interpreter  # noqa: PLC0415 - see the class
        from advisor.tui import run_controller  # noqa: F401, PLC0415 - preloaded for the next key

        packages = installation.required_packages(self.catalogue)
        return detection.detect(worker_interpreter(self.answers), packages)

    @property
    def known_machine(self) -> Machine | None:
        """This machine with the interpreter of the answers; None if it was not inspected yet."""
        is_same_interpreter = self.answers.python == self.launch_options.answers.python
        return self.machine if is_same_interpreter else None

    def _show_machine(self, machine: Machine) -> None:
        self.machine = machine
        for screen in self.screen_stack:
            if isinstance(screen, HomeScreen):
                screen.show_machine(machine)
        if self._setup_screen is not None:
            self._setup_screen.show_machine(machine)

    def _show_unfinished_run(self, run: UnfinishedRun | None) -> None:
        if self._setup_screen is not None and self._setup_screen.is_mounted:
            self._setup_screen.show_unfinished_run(run)

    def show_error(self, error: UserError) -> None:
        """Show an error and its next step."""
        if self.is_asking:
            self.setup_screen.show_error(error)
        else:
            self.notify(f"{error.what}; next: {error.next_step}", severity="error", markup=False)

    def action_start_now(self) -> None:
        """Start a run with the current answers."""
        self.run_starter.start_from_answers()

    def action_go_on(self) -> None:
        """Show the run that is going on, or resume the newest unfinished one."""
        if self._run_controller is None or not self._run_controller.show_current():
            self.unfinished_offer.accept()

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a message without control characters: it may have names of models and logs."""
        message = text.printable(message, MAX_MESSAGE)
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    # Exit

    def action_leave(self) -> None:
        """Quit, after a confirmation if a run is in progress."""
        if self._run_controller is None:
            self.shut_down(0)
        else:
            self._run_controller.ask_to_leave(self.shut_down)

    def action_interrupt(self) -> None:
        """Handle ctrl+c: offer to cancel the run, or name the key that quits."""
        if self._run_controller is not None and self._run_controller.owned_host is not None:
            self._run_controller.ask_to_cancel()
        else:
            self.notify("ctrl+q quits", markup=False)

    def shut_down(self, code: int) -> None:
        """End the host process, then exit with this code."""
        if self._run_controller is not None:
            self._run_controller.terminate()
        self.exit(code)

    def exit_message(self) -> str:
        """Return a line for the shell: the last answer, or how to come back to the run."""
        return self._run_controller.exit_message() if self._run_controller is not None else ""

    def _fatal_error(self) -> None:
        """Write a crash report; Textual's own traceback would print the values of variables."""
        from advisor.tui import crash_report  # noqa: PLC0415 - see the class

        if self._exception is not None and self.defect is None:
            self.defect = crash_report.write_crash_report(self._exception, self.context)
        self._close_messages_no_wait()
