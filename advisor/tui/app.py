"""The Textual app: holds the options, knows the machine, and starts and ends the program."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import pathlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen, ScreenResultType
from textual.theme import Theme

from advisor.ask.run_options import RunOptions
from advisor.domain.catalogue import Catalogue
from advisor.domain.errors import DefectError, UserError
from advisor.domain.import_path import ADVISOR_COMMAND, without_current_directory
from advisor.domain.machine import Machine
from advisor.store.files import report_unwritable, write_atomically
from advisor.tui import panels
from advisor.tui.home import HomeScreen
from advisor.tui.launch import THEMES, BackgroundTasks, LaunchOptions, read_theme
from advisor.tui.widgets import bind

if TYPE_CHECKING:
    from advisor.ask.context import Context
    from advisor.tui.dialogs import ChoiceDialog
    from advisor.tui.followed_run import StartRunner
    from advisor.tui.run_controller import RunController
    from advisor.tui.setup import SetupScreen

#: Characters of a notification.
MAX_MESSAGE = 600


class ScreenDriver(LinuxDriver):
    """A driver that takes the terminal once, also if SIGCONT arrives while the screens are shown.

    Textual's would take it again, and from then on restore the mode of the screens, in which
    commands get no enter. https://github.com/Textualize/textual/issues/3727 added the signal.
    """

    def start_application_mode(self) -> None:
        if self.attrs_before is None:  # the mode of the shell, while the screens are shown
            super().start_application_mode()  # type: ignore[no-untyped-call]

    def stop_application_mode(self) -> None:
        super().stop_application_mode()
        self.attrs_before = None


class AdvisorApp(App[int]):
    """The terminal program; its first screen is Home.

    Other screens, and the stages of a run, are imported when they are needed, so that the first
    screen appears quickly.
    """

    CSS_PATH = "styles.tcss"
    TITLE = "p3-advisor"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("ctrl+q", "leave", priority=True),
        bind("ctrl+g", "show_run", tooltip="the run in progress"),
        bind("H", "home", tooltip="the first screen, with the stored runs"),
        bind("ctrl+c", "interrupt", priority=True),
        bind("ctrl+z", "suspend_process", priority=True),
    ]
    _setup_screen: SetupScreen | None = None
    _run_controller: RunController | None = None

    def __init__(
        self,
        launch_options: LaunchOptions,
        context: Context,
        *,
        start_runner: StartRunner | None = None,
        theme_file: pathlib.Path | None = None,
    ) -> None:
        """`theme_file` has the theme that the user chose last."""
        no_color = launch_options.no_color or bool(context.environment.get("NO_COLOR"))
        if launch_options.no_color:
            os.environ["NO_COLOR"] = "1"  # Textual has no other option for this
        super().__init__(driver_class=ScreenDriver, ansi_color=True if no_color else None)
        self.launch_options, self.context = launch_options, context
        self.run_options: RunOptions = launch_options.run_options
        self.machine: Machine | None = None
        self.defect: DefectError | None = None
        self.background = BackgroundTasks(self._call_in_app, self.show_error)
        self._start_runner = start_runner
        self._theme_file = theme_file
        for theme in THEMES:
            self.register_theme(theme)
        if not no_color:
            self.theme = THEMES[0].name

    def _call_in_app(self, function: Callable[..., object], *arguments: object) -> None:
        """Call it in the thread of the screens, from any thread, unless the program is ending."""
        self.call_later(lambda: function(*arguments) if self.screen_stack else None)

    @functools.cached_property
    def catalogue(self) -> Catalogue:
        """The models, workflows and presets, read on first use: the first screen needs none."""
        return self.context.catalogue()

    @property
    def run_controller(self) -> RunController:
        if self._run_controller is None:
            from advisor.tui import run_controller

            self._run_controller = run_controller.RunController(self, self._start_runner)
        return self._run_controller

    def run_status(self) -> str:
        return self._run_controller.status() if self._run_controller is not None else ""

    def get_default_screen(self) -> HomeScreen:
        return HomeScreen()

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        # Only the main thread can handle signals; tests run the app in others.
        with contextlib.suppress(ValueError, RuntimeError):
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self.shut_down, 128 + number)
            # While a command has the terminal, ctrl+c also arrives here.
            loop.add_signal_handler(signal.SIGINT, self.action_interrupt)
        theme = self.launch_options.theme or read_theme(self._theme_file)
        if theme in self.available_themes and not self.ansi_color:
            self.theme = theme
        self._saved_theme = self.theme
        self.theme_changed_signal.subscribe(self, self._save_theme)
        self.call_after_refresh(self._start_background_work)

    def _save_theme(self, theme: Theme) -> None:
        if theme.name == self._saved_theme or self._theme_file is None or self.ansi_color:
            return
        self._saved_theme = theme.name
        with self.showing_errors(), report_unwritable(self._theme_file):
            write_atomically(self._theme_file, theme.name.encode())

    def _start_background_work(self) -> None:
        """Do the work that the first screen does not wait for."""
        if self.launch_options.open:
            self.run_controller.open(self.launch_options.open)
        elif self.run_options != RunOptions():
            self.action_setup()
        self.background.start("machine", self._detect_machine, self._show_machine)

    def _detect_machine(self) -> Machine:
        from advisor.ask.resolve import worker_interpreter
        from advisor.execute.drafts import detect_machine
        from advisor.tui import run_controller  # noqa: F401 - preloaded for the next key

        return detect_machine(worker_interpreter(self.run_options), self.catalogue, self.context)

    def _show_machine(self, machine: Machine) -> None:
        self.machine = machine
        for screen in self.screen_stack:
            if isinstance(screen, HomeScreen):
                screen.draw()
        if self._setup_screen is not None:
            self._setup_screen.show_machine(machine)

    def show_error(self, error: UserError) -> None:
        if self._setup_screen is not None and self.screen is self._setup_screen:
            self._setup_screen.show_error(error)
        else:
            self.notify(f"{error.what}; next: {error.next_step}", severity="error")

    @contextlib.contextmanager
    def showing_errors(self) -> Iterator[None]:
        """Show a `UserError`; actions need not do it."""
        try:
            yield
        except UserError as error:
            self.show_error(error)

    def notify(self, message: str, **options: Any) -> None:  # noqa: ANN401 - Textual's
        """Show a message as it is: it may have names of models and logs."""
        super().notify(panels.printable(message, MAX_MESSAGE), **{**options, "markup": False})

    # Screens

    @property
    def setup_screen(self) -> SetupScreen:
        """The questions; they keep what is entered while other screens are shown."""
        if self._setup_screen is None:
            from advisor.tui.setup import SetupScreen

            self._setup_screen = SetupScreen()
            self.install_screen(self._setup_screen, "setup")
        return self._setup_screen

    def action_home(self) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_setup(self) -> None:
        if self.screen is not self.setup_screen:
            self.action_home()
            self.push_screen(self.setup_screen)

    def action_new_question(self) -> None:
        self.action_setup()
        self.setup_screen.restart()

    def choose_to_compare(self, run_id: str) -> None:
        """Show the stored runs, to choose the one that this run is compared with."""
        self.action_home()
        if isinstance(self.screen, HomeScreen):
            self.screen.mark(run_id)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        from advisor.tui import dialogs

        yield from super().get_system_commands(screen)
        yield from dialogs.available_commands(self)

    def action_command_palette(self) -> None:
        from advisor.tui.dialogs import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    # Runs

    def action_start_now(self, question: str = "Start this run?") -> None:
        """Start a run; the `question` is empty if the screen shows its plan already."""
        from advisor.tui import actions

        actions.start(self, lambda: actions.draft_or_answer(self), question)

    def action_show_run(self) -> None:
        if self._run_controller is None or not self._run_controller.show_current():
            self.notify("no run is in progress here; Home lists the stored ones")

    # Commands

    def ask(
        self,
        dialog: ChoiceDialog[ScreenResultType],
        on_reply: Callable[[ScreenResultType | None], None],
    ) -> None:
        """Ask a question, unless the same one is asked already."""
        if getattr(self.screen, "question", None) != dialog.question:
            self.clear_notifications()  # they would cover the question
            self.push_screen(dialog, on_reply)

    def confirm(self, dialog: ChoiceDialog[bool], act: Callable[[], object]) -> None:
        def on_reply(agreed: bool | None) -> None:  # noqa: FBT001 - Textual's callback
            with self.showing_errors():
                if agreed:
                    act()

        self.ask(dialog, on_reply)

    def ask_to_run(
        self,
        question: str,
        details: str,
        arguments: Sequence[str],
        on_success: Callable[[], object] = lambda: None,
    ) -> None:
        from advisor.tui.dialogs import yes_or_no

        def run() -> None:
            if self.run_in_terminal(arguments) == 0:
                on_success()

        meaning = f"run {panels.printable(' '.join(('p3-advisor', *arguments)), 200)}"
        dialog = yes_or_no(question, "Run it", "Not now", f"{details}\n", meaning=meaning)
        self.confirm(dialog, run)

    def action_doctor(self) -> None:
        python = self.run_options.python
        self.run_in_terminal(["doctor", *(["--python", python] if python else [])])

    def run_in_terminal(self, arguments: Sequence[str]) -> int:
        """Leave the terminal to a command until the user returns; return its exit status."""
        with self.suspend():
            print(f"p3-advisor {shlex.join(arguments)}\n", flush=True)  # noqa: T201 - not on a screen
            command = subprocess.run(  # noqa: S603 - an argument list, no shell
                [*ADVISOR_COMMAND, *arguments],
                stdin=subprocess.DEVNULL,
                env=without_current_directory(self.context.environment),
                check=False,
            )
            with contextlib.suppress(EOFError):
                input("Press enter to return to the screens. ")
        return command.returncode

    # Exit

    def action_leave(self) -> None:
        if self._run_controller is None:
            self.shut_down(0)
        else:
            self._run_controller.ask_to_leave()

    def action_interrupt(self) -> None:
        if self._run_controller is not None and self._run_controller.owned_runner is not None:
            self._run_controller.ask_to_cancel()
        else:
            self.notify("ctrl+q quits")

    def shut_down(self, code: int) -> None:
        if self._run_controller is not None:
            self._run_controller.terminate()
        self.exit(code)

    async def run_action(self, *arguments: Any, **options: Any) -> bool:  # noqa: ANN401 - Textual's
        """Run the action, but not while the program ends, when no screen can be opened any more."""
        try:
            return self.return_code is None and await super().run_action(*arguments, **options)
        except UserError as error:
            self.show_error(error)
            return True

    def exit_message(self) -> str:
        return self._run_controller.exit_message() if self._run_controller is not None else ""

    def _fatal_error(self) -> None:
        """Write a crash report; Textual's own traceback would print the values of variables."""
        from advisor.tui.launch import write_crash_report

        if (error := sys.exc_info()[1]) is not None and self.defect is None:
            self.defect = write_crash_report(error, self.context)
        self.panic()
