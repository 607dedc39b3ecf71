"""The app: owns the answers, the run that is shown and the process that works on it. Screens draw; this acts."""

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

from advisor import catalogue as catalogue_files
from advisor.domain.machine import Machine
from advisor.errors import SettingsError, UserError
from advisor.question.answers import Answers
from advisor.tui.screens.setup import Setup
from advisor.tui.settings import Settings, default_file, read
from advisor.tui.themes import OURS
from advisor.tui.wishes import Wishes

if TYPE_CHECKING:
    from advisor.pipeline import Decision, World
    from advisor.store import Run
    from advisor.tui.host import Host
    from advisor.tui.session import Session


class AdvisorApp(App[int]):
    """The terminal program."""

    CSS_PATH = "styles.tcss"
    TITLE = "p3-advisor"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "Quit", priority=True, show=False),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    def __init__(
        self, wishes: Wishes, world: World, *, start_host: Callable[[Run], Host] | None = None, settings: Settings | None = None
    ) -> None:
        no_color = wishes.no_color or bool(world.environment.get("NO_COLOR"))
        if wishes.no_color:
            os.environ["NO_COLOR"] = "1"  # the only way to tell Textual
        super().__init__(ansi_color=True if no_color else None)
        self.wishes, self.world = wishes, world
        self.answers: Answers = wishes.answers
        self.catalogue = catalogue_files.load(world.rubric, probes=world.probes)
        self.machine: Machine | None = None
        self.session: Session | None = None
        self._start_host = start_host
        self._settings = settings or Settings()
        for theme in OURS:
            self.register_theme(theme)
        if not no_color:
            self.theme = "p3-dark"

    def get_default_screen(self) -> Setup:
        """Begin with the questions."""
        return Setup()

    def on_mount(self) -> None:
        """Set up what goes on behind the screens."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread, as in tests
                loop.add_signal_handler(number, self.die, number)
        if self.wishes.ascii_only:
            from advisor.tui.ascii_only import AsciiFilter  # noqa: PLC0415 - only when asked for

            self._filters.append(AsciiFilter())
        self.set_keymap(self._settings.keys)
        theme = self.wishes.theme or self._settings.theme
        if theme in self.available_themes and not self.ansi_color:
            self.theme = theme
        if self.wishes.replay:
            self.call_later(self._begin_replay)
        else:
            self.run_worker(self._look_at_machine, thread=True, group="machine", exit_on_error=False)

    def run_words(self) -> str:
        """Return what goes on, for the line at the top."""
        if self.session is None or self.session.is_over or not self.session.is_alive:
            return ""
        return f"run {self.session.follower.run.directory.name[-4:]} goes on "

    @property
    def owned(self) -> Host | None:
        """The process of ours that works on a run, if there is one."""
        host = self.session.host if self.session is not None else None
        return host if host is not None and host.is_running else None

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer Textual's commands and ours, as `verb: object`."""
        yield from super().get_system_commands(screen)
        yield SystemCommand("go: Questions", "ask anew; a run goes on", self.action_ask_anew)
        yield SystemCommand("go: History", "the stored runs", self.action_history)
        yield SystemCommand("go: Doctor", "what is wrong with this machine", self.action_doctor)
        yield SystemCommand("run: Start", "probe with the answers so far", self.start_run)
        if self.owned is not None:
            yield SystemCommand("run: Cancel", "end the run; what was measured is kept", self.ask_to_cancel)
            yield SystemCommand("run: Pause or go on", "after the current timed section", self.toggle_pause)

    # Questions

    def run_next_step(self) -> None:
        """Go on to the next question."""
        if isinstance(self.screen, Setup):
            self.screen.action_next()

    def _look_at_machine(self) -> None:
        from advisor import applicability, machine, question  # noqa: PLC0415 - after the first sight

        try:
            here = machine.detect(question.interpreter_of(self.answers), applicability.required_packages(self.catalogue))
        except UserError as problem:
            self.call_from_thread(self._tell_problem, problem)
        else:
            self.call_from_thread(self._take_machine, here)

    def _take_machine(self, here: Machine) -> None:
        self.machine = here
        for screen in self.screen_stack:
            if isinstance(screen, Setup):
                screen.show_machine(here)

    def _tell_problem(self, problem: UserError) -> None:
        if isinstance(self.screen, Setup):
            self.screen.tell_problem(problem)
        else:
            self.notify(f"{problem.what}; next: {problem.next_step}", severity="error", markup=False)

    def propose(self) -> None:
        """Make the plan and show it."""
        self.run_worker(self._propose, thread=True, group="propose", exclusive=True, exit_on_error=False)

    def _propose(self) -> None:
        from advisor import pipeline  # noqa: PLC0415 - after the first sight
        from advisor.tui.steps.plan import PlanStep  # noqa: PLC0415 - as above

        try:
            proposal = pipeline.propose(self.answers, self.world, self._machine_for(self.answers))
        except UserError as problem:
            self.call_from_thread(self._tell_problem, problem)
            return

        def show() -> None:
            for step in self.screen.query(PlanStep):
                step.show(proposal)

        self.call_from_thread(show)

    def _machine_for(self, answers: Answers) -> Machine | None:
        """Return what was seen, if it was seen through the interpreter that is asked for."""
        return self.machine if answers.python == self.wishes.answers.python else None

    # Runs

    def start_run(self) -> None:
        """Make a run of the answers, and have it worked on."""
        if self.owned is not None:
            self.notify("a run goes on already; cancel it first, or wait for it", severity="warning", markup=False)
            return
        self.notify("making the plan ...", timeout=2, markup=False)
        self.run_worker(self._start_run, thread=True, group="start", exclusive=True, exit_on_error=False)

    def _start_run(self) -> None:
        from advisor import pipeline  # noqa: PLC0415 - after the first sight

        try:
            run = pipeline.create(pipeline.propose(self.answers, self.world, self._machine_for(self.answers)), self.world)
        except UserError as problem:
            self.call_from_thread(self._tell_problem, problem)
        else:
            self.call_from_thread(self.work_on, run)

    def work_on(self, run: Run) -> None:
        """Have a run worked on by a process of its own, and show it."""
        from advisor.tui.host import Host  # noqa: PLC0415 - after the first sight
        from advisor.tui.session import Session  # noqa: PLC0415 - as above

        self.show_session(Session.of(run, (self._start_host or Host)(run)))

    def _begin_replay(self) -> None:
        from advisor.tui.session import Session  # noqa: PLC0415 - only when asked for

        self.show_session(Session.replay(self.wishes.replay, self.wishes.speed))

    def show_session(self, session: Session) -> None:
        """Show a run while it goes on."""
        from advisor.tui.screens.live import Live  # noqa: PLC0415 - only when needed

        self.session = session
        self.action_ask_anew()
        self.push_screen(Live())
        self.tick(session)

    def tick(self, session: Session) -> None:
        """Look at the run, draw what is new, and look again later."""
        from advisor.tui.screens.live import Live  # noqa: PLC0415 - only when needed

        if session is not self.session:
            return
        try:
            session.look()
        except UserError as problem:
            self._tell_problem(problem)
            return
        if isinstance(self.screen, Live):
            self.screen.draw()
        if session.is_over:
            self.call_later(self._show_results)
            return
        rank = session.ranking(asyncio.get_running_loop().time())
        if rank is not None:
            self.run_worker(rank, thread=True, group="rank", exclusive=True, exit_on_error=False)
        self.set_timer(session.seconds_to_next_look, lambda: self.tick(session))

    def _show_results(self) -> None:
        session = self.session

        def judge() -> None:
            if session is not None:
                self.call_from_thread(self.show_decision, session.judge())

        self.run_worker(judge, thread=True, group="results", exclusive=True, exit_on_error=False)

    def show_decision(self, decision: Decision) -> None:
        """Show results in place of the run."""
        from advisor.tui.screens.results import Results  # noqa: PLC0415 - only when needed

        self.action_ask_anew()
        self.push_screen(Results(decision))

    def open_run(self, run_id: str) -> None:
        """Show a stored run: its results, or its probes if it goes on."""
        from advisor.tui.session import Session  # noqa: PLC0415 - only when needed

        try:
            run = self.world.store.find(run_id)
            if self.owned is not None and self.session is not None and self.session.follower.run.directory == run.directory:
                self.show_session(Session.of(run, self.owned))
            elif self.owned is not None:
                self.notify("a run goes on; cancel it first, or wait for it", severity="warning", markup=False)
            elif run.is_active():
                self.show_session(Session.of(run))
            else:
                self.session = Session.of(run)
                self.session.look()
                self._show_results()
        except UserError as problem:
            self._tell_problem(problem)

    def resume(self, run_id: str) -> None:
        """Go on with a run that stopped."""
        try:
            run = self.world.store.find(run_id)
            run.header()
        except UserError as problem:
            self._tell_problem(problem)
            return
        if run.is_active():
            self.open_run(run_id)
        elif self.owned is not None:
            self.notify("a run goes on; cancel it first, or wait for it", severity="warning", markup=False)
        else:
            self.work_on(run)

    def toggle_pause(self) -> None:
        """Pause after the current section, or go on."""
        if self.session is None or not self.session.toggle_pause():
            self.notify("this run belongs to another process, or is a recording", markup=False)

    def ask_to_cancel(self) -> None:
        """End the run, after asking; then show what there is."""
        from advisor.tui.screens.dialogs import Cancelling  # noqa: PLC0415 - only when needed

        def decided(yes: bool | None) -> None:  # noqa: FBT001 - Textual's callback
            if yes and self.owned is not None:
                self.owned.cancel()
            if yes:
                self._show_results()

        if self.session is not None and not self.session.is_alive:
            self._show_results()
        elif self.owned is None:
            self.notify("this run belongs to another process, or is a recording", markup=False)
        else:
            self.push_screen(Cancelling(), decided)

    def action_ask_anew(self) -> None:
        """Show the questions."""
        while not isinstance(self.screen, Setup):
            self.pop_screen()

    def action_history(self) -> None:
        """Show the stored runs."""
        from advisor.tui.screens.history import History  # noqa: PLC0415 - only when needed

        self.push_screen(History())

    def action_doctor(self) -> None:
        """Show what is wrong with this machine."""
        from advisor.tui.screens.doctor import Doctor  # noqa: PLC0415 - only when needed

        self.push_screen(Doctor())

    def examine(self) -> None:
        """Look for what is wrong, and show it."""
        self.run_worker(self._examine, thread=True, group="doctor", exclusive=True, exit_on_error=False)

    def _examine(self) -> None:
        from advisor import doctor, question  # noqa: PLC0415 - only when needed
        from advisor.store import default_home  # noqa: PLC0415 - as above
        from advisor.tui.screens.doctor import Doctor  # noqa: PLC0415 - as above

        try:
            findings = doctor.examine(question.interpreter_of(self.answers), default_home(self.world.environment))
        except UserError as problem:
            findings = [doctor.Finding(name=problem.name, status="fail", what=problem.what, fix=problem.next_step)]

        def show() -> None:
            if isinstance(self.screen, Doctor):
                self.screen.show(findings)

        self.call_from_thread(show)

    def export(self, decision: Decision, *, explored: bool) -> None:
        """Write a decision's document where the user says."""
        from advisor.tui import documents  # noqa: PLC0415 - only when needed
        from advisor.tui.screens.dialogs import Export  # noqa: PLC0415 - as above

        def write(file: pathlib.Path | None) -> None:
            if file is None:
                return
            try:
                documents.write(decision, file)
            except UserError as problem:
                self._tell_problem(problem)
            else:
                self.notify(f"written: {file.absolute()}", markup=False)

        name = f"p3-advisor-{decision.header.run_id}{'-explored' if explored else ''}.json"
        self.push_screen(Export(pathlib.Path.cwd() / name), write)

    # The end

    def action_leave(self) -> None:
        """Quit; ask first while a run goes on."""
        from advisor.tui.screens.dialogs import Leaving  # noqa: PLC0415 - only when needed

        def decided(choice: str | None) -> None:
            if not choice:
                return
            if choice == "keep" and self.owned is not None:
                self.owned.leave_alone()
                self.session = None
            self.end(0 if choice == "keep" else 130)

        if self.owned is not None:
            if not isinstance(self.screen, Leaving):
                self.push_screen(Leaving(self.run_words()), decided)
        else:
            self.end(0)

    def action_interrupt(self) -> None:
        """Ctrl+c: offer to cancel while a run goes on, else say how to quit."""
        if self.owned is not None:
            self.ask_to_cancel()
        else:
            self.notify("ctrl+q quits", markup=False)

    def die(self, number: int) -> None:
        """End at once because a signal said so; the run's processes end too."""
        self.end(128 + number)

    def end(self, code: int) -> None:
        """End the run's process, then the screens."""
        if self.owned is not None:
            self.owned.end()
        self.exit(code)


def show(wishes: Wishes, world: World) -> int:
    """Run the terminal program; return the exit code."""
    if wishes.replay:
        from advisor.store import Run  # noqa: PLC0415 - only when asked for

        Run(pathlib.Path(wishes.replay)).header()  # what is wrong with it is told before the screen is taken
    app = AdvisorApp(wishes, world, settings=read(default_file()))
    if wishes.theme and wishes.theme not in app.available_themes:
        raise SettingsError(f"there is no theme {wishes.theme!r}", f"use one of {', '.join(sorted(app.available_themes))}")
    code = app.run(mouse=not wishes.no_mouse)
    return app.return_code or 0 if code is None else code
