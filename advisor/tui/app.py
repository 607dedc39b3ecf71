"""The Textual app: holds the answers and switches between screens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import Theme

from advisor import catalogue as catalogue_files
from advisor.domain.machine import Machine
from advisor.errors import DefectError, UserError
from advisor.question.answers import Answers
from advisor.settings import Settings, read, save_theme
from advisor.tui.background import BackgroundTasks
from advisor.tui.options import LaunchOptions
from advisor.tui.rendering.themes import THEMES
from advisor.tui.screens.home import HomeScreen

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.pipeline.draft import DraftRun
    from advisor.report.document import RunDocument
    from advisor.store import Run
    from advisor.tui.run.host_process import HostProcess
    from advisor.tui.run.unfinished import UnfinishedRun
    from advisor.tui.run_controller import RunController
    from advisor.tui.screens.setup import SetupScreen


class AdvisorApp(App[int]):
    """The terminal program.

    Stages and further screens are imported when they are needed, so that the first screen appears
    quickly.
    """

    CSS_PATH = "styles.tcss"
    TITLE = "p3-advisor"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "Quit", priority=True, show=False),
        Binding("ctrl+g", "go_on", "Run", show=False, id="go-on"),
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
        self.catalogue = catalogue_files.load(context.rubric, probes=context.probes)
        self.machine: Machine | None = None
        self.defect: DefectError | None = None
        self.background = BackgroundTasks(self._call_in_app, self.show_error)
        self._run_controller: RunController | None = None
        self._setup_screen: SetupScreen | None = None
        self.unfinished_run: UnfinishedRun | None = None
        self._start_host = start_host
        self._settings_file = settings_file
        self._settings = read(settings_file) if settings_file else Settings()
        for theme in THEMES:
            self.register_theme(theme)
        if not no_color:
            self.theme = "p3-dark"

    def _call_in_app(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the thread of the screens, unless the program is ending.

        Callable from any thread.
        """
        self.call_later(lambda: function(*arguments) if self.screen_stack else None)

    @property
    def run_controller(self) -> RunController:
        """The controller of the run, created on first use."""
        if self._run_controller is None:
            from advisor.tui import run_controller  # noqa: PLC0415 - see the class

            self._run_controller = (
                run_controller.RunController(self, self._start_host)
                if self._start_host
                else run_controller.RunController(self)
            )
        return self._run_controller

    def run_status(self) -> str:
        return self._run_controller.status() if self._run_controller is not None else ""

    def get_default_screen(self) -> HomeScreen:
        return HomeScreen()

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            # Only the main thread can handle signals; tests run the app in others.
            with contextlib.suppress(ValueError, RuntimeError):
                loop.add_signal_handler(number, self.exit_on_signal, number)
        if self.launch_options.ascii_only:
            from advisor.tui.rendering.ascii_filter import AsciiFilter  # noqa: PLC0415 - rarely used

            self._filters.append(AsciiFilter())
        self.set_keymap(self._settings.keys)
        theme = self.launch_options.theme or self._settings.theme
        if theme in self.available_themes and not self.ansi_color:
            self.theme = theme
        self._saved_theme = self.theme
        self.theme_changed_signal.subscribe(self, self._save_theme)
        self.call_after_refresh(self._start_background_work)

    def _save_theme(self, theme: Theme) -> None:
        if theme.name == self._saved_theme or self._settings_file is None or self.ansi_color:
            return
        self._saved_theme = theme.name
        try:
            save_theme(self._settings_file, theme.name)
        except UserError as error:
            self.show_error(error)

    def _start_background_work(self) -> None:
        """Do the work that the first screen does not wait for."""
        if self.launch_options.replay:
            self.run_controller.replay(self.launch_options.replay, self.launch_options.speed)
            return
        if self.launch_options.open:
            self.run_controller.open(self.launch_options.open)
        elif self.answers != Answers():
            self.action_setup()
        self.background.start("machine", self._detect_machine, self._show_machine)
        self.background.start("unfinished", self._find_unfinished_run, self._show_unfinished_run)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        from advisor.tui import command_palette  # noqa: PLC0415 - rarely used

        own = command_palette.available_commands(self)
        yield from command_palette.run_once([*super().get_system_commands(screen), *own])

    def action_command_palette(self) -> None:
        """Show all commands."""
        from advisor.tui.command_palette import Palette  # noqa: PLC0415 - rarely used

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    # Questions

    @property
    def setup_screen(self) -> SetupScreen:
        """The questions; they keep their answers while other screens are shown."""
        if self._setup_screen is None:
            from advisor.tui.screens.setup import SetupScreen  # noqa: PLC0415 - see the class

            self._setup_screen = SetupScreen()
            self.install_screen(self._setup_screen, "setup")
        return self._setup_screen

    @property
    def is_asking(self) -> bool:
        """Whether the questions are shown."""
        return self._setup_screen is not None and self.screen is self._setup_screen

    def go_to_next_step(self) -> None:
        """Go to the next question."""
        if self.is_asking:
            self.setup_screen.action_next()

    def _detect_machine(self) -> Machine:
        from advisor import applicability, machine, question  # noqa: PLC0415 - see the class
        from advisor.tui import run_controller  # noqa: F401, PLC0415 - preloaded for the next key

        return machine.detect(
            question.worker_interpreter(self.answers),
            applicability.required_packages(self.catalogue),
        )

    def _show_machine(self, machine: Machine) -> None:
        self.machine = machine
        for screen in self.screen_stack:
            if isinstance(screen, HomeScreen):
                screen.show_machine(machine)
        if self._setup_screen is not None:
            self._setup_screen.show_machine(machine)

    def _find_unfinished_run(self) -> UnfinishedRun | None:
        from advisor.tui.run import unfinished  # noqa: PLC0415 - see the class

        return unfinished.find_unfinished_run(self.context.store)

    def _show_unfinished_run(self, run: UnfinishedRun | None) -> None:
        self.unfinished_run = run
        if self._setup_screen is not None and self._setup_screen.is_mounted:
            self._setup_screen.show_unfinished_run(run)

    def show_error(self, error: UserError) -> None:
        """Show an error and its next step."""
        if self.is_asking:
            self.setup_screen.show_error(error)
        else:
            self.notify(f"{error.what}; next: {error.next_step}", severity="error", markup=False)

    def show_field_error(self, error: UserError | None) -> None:
        """Show what is wrong with a field of the questions, or remove it."""
        if self.is_asking:
            self.setup_screen.show_error(error)

    def show_plan(self) -> None:
        """Make the plan in the background and show it."""
        from advisor.tui.steps.plan import PlanStep  # noqa: PLC0415 - see the class

        def show(drafted: DraftRun | RunDocument) -> None:
            for step in self.setup_screen.query(PlanStep):
                step.show(drafted)

        self.background.start("plan", self._draft_or_answer, show)

    def _draft(self) -> DraftRun:
        from advisor.pipeline.draft import propose  # noqa: PLC0415 - see the class

        # The machine was inspected with the interpreter of the launch options.
        is_same_interpreter = self.answers.python == self.launch_options.answers.python
        return propose(self.answers, self.context, self.machine if is_same_interpreter else None)

    def _draft_or_answer(self) -> DraftRun | RunDocument:
        from advisor.report import absent_gpu  # noqa: PLC0415 - see the class

        return absent_gpu.draft_or_answer(self.answers, self.context, self._draft)

    def start_run(self) -> None:
        """Start a run with the current answers; show the answer for a GPU that is absent."""
        self.run_controller.start(self._draft_or_answer)

    # Screens

    def action_home(self) -> None:
        """Show the first screen."""
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_setup(self) -> None:
        """Show the questions."""
        if not self.is_asking:
            self.action_home()
            self.push_screen(self.setup_screen)

    def action_new_question(self) -> None:
        """Show the first question."""
        self.action_setup()
        self.setup_screen.restart()

    def action_start_now(self) -> None:
        """Start a run with the current answers."""
        self.start_run()

    def action_go_on(self) -> None:
        """Show the run that is going on, or resume the newest unfinished one."""
        if self._run_controller is not None and self._run_controller.show_current():
            return
        run, self.unfinished_run = self.unfinished_run, None
        if run is None:
            self.notify("no run is going on, and none was stopped", markup=False)
        else:
            self.run_controller.resume(run.run_id)

    def action_history(self) -> None:
        """Show the stored runs."""
        from advisor.tui.screens.history import HistoryScreen  # noqa: PLC0415 - see the class

        if not isinstance(self.screen, HistoryScreen):
            self.push_screen(HistoryScreen())

    def action_fleet(self) -> None:
        """Show the answers of the newest fleet."""
        from advisor.report import fleet_reader  # noqa: PLC0415 - see the class
        from advisor.tui.screens.fleet import FleetScreen  # noqa: PLC0415 - see the class

        self.background.start(
            "fleet",
            lambda: fleet_reader.read_fleet_document("latest", self.context.store),
            lambda document: self.push_screen(FleetScreen(document)),
        )

    def action_doctor(self) -> None:
        """Show the findings about this machine."""
        from advisor.tui.screens.doctor import DoctorScreen  # noqa: PLC0415 - see the class

        if not isinstance(self.screen, DoctorScreen):
            self.push_screen(DoctorScreen())

    # Exit

    def action_leave(self) -> None:
        """Quit, after a confirmation if a run is in progress."""
        if self._run_controller is None or self._run_controller.owned_host is None:
            self.shut_down(0)
            return
        from advisor.tui.dialogs.confirmations import QuitDialog  # noqa: PLC0415 - see the class

        def on_answer(choice: str | None) -> None:
            if choice == "keep":
                self.run_controller.detach()
            if choice:
                self.shut_down(0 if choice == "keep" else 130)

        if not isinstance(self.screen, QuitDialog):
            self.push_screen(QuitDialog(self.run_controller.description()), on_answer)

    def action_interrupt(self) -> None:
        """Handle ctrl+c: offer to cancel the run, or name the key that quits."""
        if self._run_controller is not None and self._run_controller.owned_host is not None:
            self._run_controller.ask_to_cancel()
        else:
            self.notify("ctrl+q quits", markup=False)

    def exit_on_signal(self, number: int) -> None:
        """End the program and the run after a signal."""
        self.shut_down(128 + number)

    def shut_down(self, code: int) -> None:
        """End the host process, then exit with this code."""
        if self._run_controller is not None:
            self._run_controller.terminate()
        self.exit(code)

    def farewell(self) -> str:
        """Return a line for the shell: the last answer, or how to come back to the run."""
        return self._run_controller.farewell() if self._run_controller is not None else ""

    def _fatal_error(self) -> None:
        """Write a crash report; Textual's own traceback would print the values of variables."""
        from advisor.store import default_home  # noqa: PLC0415 - see the class
        from advisor.tui import crash_report  # noqa: PLC0415 - see the class

        if self._exception is not None and self.defect is None:
            self.defect = crash_report.write_crash_report(
                self._exception,
                default_home(self.context.environment),
                f"{self.context.now():%Y%m%d-%H%M%S}",
            )
        self._close_messages_no_wait()
