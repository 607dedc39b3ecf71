"""The app: owns the answers, and knows which screen is shown when.

Screens draw; `runs` has the runs.
"""

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
from advisor.settings import Settings, keep_theme, read
from advisor.tui.background import Background
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.setup import Setup
from advisor.tui.themes import OURS

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.pipeline.draft import DraftRun
    from advisor.report.document import RunDocument
    from advisor.store import Run
    from advisor.tui.run.host_process import Host
    from advisor.tui.run.unfinished import Waiting
    from advisor.tui.run_controller import Runs


class AdvisorApp(App[int]):
    """The terminal program."""

    CSS_PATH = "styles.tcss"
    TITLE = "p3-advisor"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "Quit", priority=True, show=False),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, priority=True),
    ]

    def __init__(
        self,
        wishes: LaunchOptions,
        world: Context,
        *,
        start_host: Callable[[Run], Host] | None = None,
        settings_file: pathlib.Path | None = None,
    ) -> None:
        """Read the settings; a theme that is chosen later is kept in their file, if there is one."""
        no_color = wishes.no_color or bool(world.environment.get("NO_COLOR"))
        if wishes.no_color:
            os.environ["NO_COLOR"] = "1"  # the only way to tell Textual
        super().__init__(ansi_color=True if no_color else None)
        self.wishes, self.world = wishes, world
        self.answers: Answers = wishes.answers
        self.catalogue = catalogue_files.load(world.rubric, probes=world.probes)
        self.machine: Machine | None = None
        self.defect: DefectError | None = None
        self.background = Background(self._hand, self.tell_problem)
        self._runs: Runs | None = None
        self._start_host = start_host
        self._settings_file = settings_file
        self._settings = read(settings_file) if settings_file else Settings()
        for theme in OURS:
            self.register_theme(theme)
        if not no_color:
            self.theme = "p3-dark"

    def _hand(self, function: Callable[..., object], *arguments: object) -> None:
        """Have a function called where screens may be touched, unless the program is ending; callable from any thread."""
        self.call_later(lambda: function(*arguments) if self.screen_stack else None)

    @property
    def runs(self) -> Runs:
        """The run that is shown; what it needs is loaded when there is one."""
        if self._runs is None:
            from advisor.tui import run_controller  # noqa: PLC0415 - after the first sight

            self._runs = (
                run_controller.Runs(self, self._start_host)
                if self._start_host
                else run_controller.Runs(self)
            )
        return self._runs

    def run_words(self) -> str:
        """Return what goes on, for the line at the top."""
        return self._runs.words() if self._runs is not None else ""

    def get_default_screen(self) -> Setup:
        """Begin with the questions."""
        return Setup()

    def on_mount(self) -> None:
        """Set up what goes on behind the screens."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with contextlib.suppress(
                ValueError, RuntimeError
            ):  # not in the main thread, as in tests
                loop.add_signal_handler(number, self.die, number)
        if self.wishes.ascii_only:
            from advisor.tui.ascii_only import AsciiFilter  # noqa: PLC0415 - only when asked for

            self._filters.append(AsciiFilter())
        self.set_keymap(self._settings.keys)
        theme = self.wishes.theme or self._settings.theme
        if theme in self.available_themes and not self.ansi_color:
            self.theme = theme
        self._kept_theme = self.theme
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        self.call_after_refresh(self._begin)

    def _keep_theme(self, theme: Theme) -> None:
        if theme.name == self._kept_theme or self._settings_file is None or self.ansi_color:
            return
        self._kept_theme = theme.name
        try:
            keep_theme(self._settings_file, theme.name)
        except UserError as problem:
            self.tell_problem(problem)

    def _begin(self) -> None:
        """Do what the first sight need not wait for."""
        if self.wishes.replay:
            self.runs.replay(self.wishes.replay, self.wishes.speed)
        else:
            self.background.do("machine", self._look_at_machine, self._take_machine)
            self.background.do("waiting", self._look_for_waiting, self._tell_waiting)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer Textual's commands and ours, as `verb: object`."""
        from advisor.tui import commands  # noqa: PLC0415 - only when asked for

        yield from super().get_system_commands(screen)
        yield from commands.offer(self)

    # Questions

    def run_next_step(self) -> None:
        """Go on to the next question."""
        if isinstance(self.screen, Setup):
            self.screen.action_next()

    def _look_at_machine(self) -> Machine:
        from advisor import applicability, machine, question  # noqa: PLC0415 - after the first sight
        from advisor.tui import run_controller  # noqa: F401, PLC0415 - loaded meanwhile, so that the next key finds it there

        return machine.detect(
            question.interpreter_of(self.answers), applicability.required_packages(self.catalogue)
        )

    def _take_machine(self, here: Machine) -> None:
        self.machine = here
        for screen in self.screen_stack:
            if isinstance(screen, Setup):
                screen.show_machine(here)

    def _look_for_waiting(self) -> Waiting | None:
        from advisor.tui.run import unfinished  # noqa: PLC0415 - after the first sight

        return unfinished.find_waiting(self.world.store)

    def _tell_waiting(self, waiting: Waiting | None) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, Setup):
                screen.offer(waiting)

    def tell_problem(self, problem: UserError) -> None:
        """Say what does not fit and what to do."""
        if isinstance(self.screen, Setup):
            self.screen.tell_problem(problem)
        else:
            self.notify(
                f"{problem.what}; next: {problem.next_step}", severity="error", markup=False
            )

    def propose(self) -> None:
        """Make the plan and show it."""
        from advisor.tui.steps.plan import PlanStep  # noqa: PLC0415 - after the first sight

        def show(found: DraftRun | RunDocument) -> None:
            for step in self.screen.query(PlanStep):
                step.show(found)

        self.background.do("propose", self._propose_or_answer, show)

    def _propose(self) -> DraftRun:
        from advisor.pipeline.draft import propose  # noqa: PLC0415 - after the first sight

        # What was seen counts only if it was seen through the interpreter that is asked for.
        seen = self.machine if self.answers.python == self.wishes.answers.python else None
        return propose(self.answers, self.world, seen)

    def _propose_or_answer(self) -> DraftRun | RunDocument:
        from advisor.report import unattached  # noqa: PLC0415 - after the first sight

        return unattached.propose_or_answer(self.answers, self.world, self._propose)

    def start_run(self) -> None:
        """Make a run of the answers, and have it worked on; for a GPU that is not attached, show what is known of it."""
        self.runs.start(self._propose_or_answer)

    # Screens

    def action_ask_anew(self) -> None:
        """Show the questions."""
        while not isinstance(self.screen, Setup):
            self.pop_screen()

    def action_history(self) -> None:
        """Show the stored runs."""
        from advisor.tui.screens.history import History  # noqa: PLC0415 - only when needed

        self.push_screen(History())

    def action_fleet(self) -> None:
        """Show what the newest fleet has answered."""
        from advisor.report import fleet_documents  # noqa: PLC0415 - only when needed
        from advisor.tui.screens.fleet import Fleet  # noqa: PLC0415 - as above

        self.background.do(
            "fleet",
            lambda: fleet_documents.read_answer("latest", self.world.store),
            lambda found: self.push_screen(Fleet(found)),
        )

    def action_doctor(self) -> None:
        """Show what is wrong with this machine."""
        from advisor.tui.screens.doctor import Doctor  # noqa: PLC0415 - only when needed

        self.push_screen(Doctor())

    # The end

    def action_leave(self) -> None:
        """Quit; ask first while a run goes on."""
        if self._runs is None or self._runs.owned is None:
            self.end(0)
            return
        from advisor.tui.screens.dialogs import Leaving  # noqa: PLC0415 - only when needed

        def decided(choice: str | None) -> None:
            if choice == "keep":
                self.runs.leave_alone()
            if choice:
                self.end(0 if choice == "keep" else 130)

        if not isinstance(self.screen, Leaving):
            self.push_screen(Leaving(self.run_words()), decided)

    def action_interrupt(self) -> None:
        """Ctrl+c: offer to cancel while a run goes on, else say how to quit."""
        if self._runs is not None and self._runs.owned is not None:
            self._runs.ask_to_cancel()
        else:
            self.notify("ctrl+q quits", markup=False)

    def die(self, number: int) -> None:
        """End at once because a signal said so; the run's processes end too."""
        self.end(128 + number)

    def end(self, code: int) -> None:
        """End the run's process, then the screens."""
        if self._runs is not None:
            self._runs.end()
        self.exit(code)

    def _fatal_error(self) -> None:
        """Write a defect of ours down; Textual would print the values of all variables."""
        from advisor.store import default_home  # noqa: PLC0415 - never needed, one hopes
        from advisor.tui import crash  # noqa: PLC0415 - as above

        if self._exception is not None and self.defect is None:
            self.defect = crash.report(
                self._exception,
                default_home(self.world.environment),
                f"{self.world.now():%Y%m%d-%H%M%S}",
            )
        self._close_messages_no_wait()
