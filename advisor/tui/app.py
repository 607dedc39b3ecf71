"""The app: owns the answers, the run that is shown and the process that works on it. Screens draw; this acts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver

from advisor import catalogue as catalogue_files
from advisor.domain.machine import Machine
from advisor.errors import UserError
from advisor.question.answers import Answers
from advisor.tui.screens.setup import Setup
from advisor.tui.themes import OURS
from advisor.tui.wishes import Wishes

if TYPE_CHECKING:
    from advisor.pipeline import Decision, World
    from advisor.store import Run
    from advisor.tui.following import Follower
    from advisor.tui.host import Host

#: Seconds between two looks at the run: while it compiles, while it is timed, and when nothing goes on.
TICK_SECONDS, QUIET_SECONDS, IDLE_SECONDS = 0.2, 0.5, 1.0
#: Seconds between two provisional rankings.
RANKING_SECONDS = 3.0


class AdvisorApp(App[int]):
    """The terminal program."""

    CSS_PATH = "styles.tcss"
    TITLE = "p3-advisor"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "Quit", priority=True, show=False),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    def __init__(
        self, wishes: Wishes, world: World, *, start_host: Callable[[Run], Host] | None = None, driver_class: type[Driver] | None = None
    ) -> None:
        no_color = wishes.no_color or bool(world.environment.get("NO_COLOR"))
        if wishes.no_color:
            os.environ["NO_COLOR"] = "1"  # the only way to tell Textual
        super().__init__(driver_class=driver_class, ansi_color=True if no_color else None)
        self.wishes, self.world = wishes, world
        self.answers: Answers = wishes.answers
        self.catalogue = catalogue_files.load(world.rubric, probes=world.probes)
        self.machine: Machine | None = None
        self.follower: Follower | None = None
        self.host: Host | None = None
        self.provisional: Decision | None = None
        self.is_replay = bool(wishes.replay)
        self.is_pausing = False
        self._start_host = start_host
        self._ranked = (0, -RANKING_SECONDS)
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
        if self.wishes.theme in self.available_themes:
            self.theme = self.wishes.theme
        if self.wishes.replay:
            self.call_later(self._begin_replay)
        else:
            self.run_worker(self._look_at_machine, thread=True, group="machine", exit_on_error=False)

    # What screens read

    @property
    def is_run_alive(self) -> bool:
        """Whether somebody works on the run that is shown."""
        if self.follower is None:
            return False
        return self.is_replay or (self.host.is_running if self.host is not None else self.follower.run.is_active())

    @property
    def is_paused(self) -> bool:
        """Whether the run waits."""
        return self.host is not None and self.host.is_paused

    def last_words(self) -> str:
        """Return why the run stopped, if its process said so."""
        return self.host.last_words() if self.host is not None else ""

    def run_words(self) -> str:
        """Return what goes on, for the line at the top."""
        if self.follower is None or self.follower.state.finished or not self.is_run_alive:
            return ""
        return f"run {self.follower.run.directory.name[-4:]} goes on "

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
        if self.host is not None and self.host.is_running:
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

        self.host = (self._start_host or Host)(run)
        self.watch_run(run)

    def watch_run(self, run: Run) -> None:
        """Show a run while it goes on."""
        from advisor.tui.following import Follower, Tail  # noqa: PLC0415 - after the first sight

        self._show_live(Follower(run, Tail(run)))

    def _begin_replay(self) -> None:
        from advisor.store import Run  # noqa: PLC0415 - only when asked for
        from advisor.tui.following import Follower, Recording  # noqa: PLC0415 - as above

        run = Run(pathlib.Path(self.wishes.replay))
        self._show_live(Follower(run, Recording(run, self.wishes.speed)))

    def _show_live(self, follower: Follower) -> None:
        from advisor.tui.screens.live import Live  # noqa: PLC0415 - only when needed

        self.follower, self.provisional, self.is_pausing = follower, None, False
        self._ranked = (0, -RANKING_SECONDS)
        follower.advance()
        while not isinstance(self.screen, Setup):
            self.pop_screen()
        self.push_screen(Live())
        self.tick()

    def tick(self) -> None:
        """Look at the run, draw what is new, and look again later."""
        from advisor.tui.screens.live import Live  # noqa: PLC0415 - only when needed

        follower = self.follower
        if follower is None:
            return
        try:
            follower.advance()
        except UserError as problem:
            self._tell_problem(problem)
            return
        if self.host is not None:
            self.host.look()
            self.is_pausing = self.is_pausing and not self.host.is_paused and self.host.is_running
        if isinstance(self.screen, Live):
            self.screen.draw()
        if follower.state.finished:
            self.call_later(self._show_results)
            return
        self._rank_now_and_then()
        racing = len(follower.state.opened) > len(follower.state.closed)
        alive = self.is_run_alive
        self.set_timer((QUIET_SECONDS if racing else TICK_SECONDS) if alive else IDLE_SECONDS, self.tick)

    def _rank_now_and_then(self) -> None:
        """Rank provisionally, in a thread, when there are new visits and the last ranking is a while ago."""
        follower = self.follower
        assert follower is not None  # noqa: S101 - called with one
        loop = asyncio.get_running_loop()
        seq, when = self._ranked
        if not follower.state.opened or seq == follower.state.seq or loop.time() - when < RANKING_SECONDS:
            return
        self._ranked = (follower.state.seq, loop.time())
        header, state = follower.header, follower.state

        def rank() -> None:
            from advisor import pipeline  # noqa: PLC0415 - after the first sight

            self.provisional = pipeline.judge(header, state)

        self.run_worker(rank, thread=True, group="rank", exclusive=True, exit_on_error=False)

    def _show_results(self) -> None:
        follower = self.follower
        if follower is None:
            return
        self.run_worker(lambda: self._judge(follower), thread=True, group="results", exclusive=True, exit_on_error=False)

    def _judge(self, follower: Follower) -> None:
        from advisor import pipeline  # noqa: PLC0415 - after the first sight

        decision = pipeline.judge(follower.header, follower.state)
        self.call_from_thread(self.show_decision, decision)

    def show_decision(self, decision: Decision) -> None:
        """Show results in place of the run."""
        from advisor.tui.screens.results import Results  # noqa: PLC0415 - only when needed

        while not isinstance(self.screen, Setup):
            self.pop_screen()
        self.push_screen(Results(decision))

    def open_run(self, run_id: str) -> None:
        """Show a stored run: its results, or its probes if it goes on."""
        from advisor.tui.following import Follower, Tail  # noqa: PLC0415 - after the first sight

        try:
            run = self.world.store.find(run_id)
            if run.is_active():
                if self.host is None or self.follower is None or self.follower.run.directory != run.directory:
                    self.host = None
                self.watch_run(run)
                return
            follower = Follower(run, Tail(run))
            follower.advance()
        except UserError as problem:
            self._tell_problem(problem)
            return
        self.follower, self.is_replay = follower, False
        self._show_results()

    def resume(self, run_id: str) -> None:
        """Go on with a run that stopped."""
        try:
            run = self.world.store.find(run_id)
            header_is_fine = run.header()
        except UserError as problem:
            self._tell_problem(problem)
            return
        if run.is_active():
            self.watch_run(run)
        elif header_is_fine:
            self.work_on(run)

    def action_resume_run(self) -> None:
        """Go on with the run that is shown."""
        if self.follower is not None:
            self.resume(str(self.follower.run.directory))

    def toggle_pause(self) -> None:
        """Pause after the current section, or go on."""
        if self.host is None:
            self.notify("this run belongs to another process, or is a recording", markup=False)
        elif self.host.is_paused or self.is_pausing:
            self.host.order("go")
            self.is_pausing = False
        else:
            self.host.order("pause")
            self.is_pausing = True

    def ask_to_cancel(self) -> None:
        """End the run, after asking; then show what there is."""
        from advisor.tui.screens.dialogs import Cancelling  # noqa: PLC0415 - only when needed

        def decided(yes: bool | None) -> None:
            if yes and self.host is not None:
                self.host.cancel()
            if yes:
                self._show_results()

        if self.is_run_alive and not self.is_replay and self.host is None:
            self.notify("this run belongs to another process", markup=False)
        else:
            self.push_screen(Cancelling(), decided)

    def action_leave_run(self) -> None:
        """Show the questions; the run goes on."""
        self.pop_screen()

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
        from advisor.report import document  # noqa: PLC0415 - only when needed
        from advisor.tui.screens.dialogs import Export  # noqa: PLC0415 - as above
        from advisor.tui.screens.results import document_of  # noqa: PLC0415 - as above

        def write(file: pathlib.Path | None) -> None:
            if file is None:
                return
            beside = file.with_name(f".{file.name}.part")
            try:
                beside.write_text(document.encode(document_of(decision)), encoding="utf-8")
                beside.replace(file)
            except OSError as problem:
                self.notify(f"{file} cannot be written: {problem.strerror}", severity="error", markup=False)
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
            if choice == "keep" and self.host is not None:
                self.host.leave_alone()
                self.host = None
            self.end(0 if choice == "keep" else 130)

        if self.host is not None and self.host.is_running:
            if not isinstance(self.screen, Leaving):
                self.push_screen(Leaving(self.follower.run.directory.name if self.follower else ""), decided)
        else:
            self.end(0)

    def action_interrupt(self) -> None:
        """Ctrl+c: offer to cancel while a run goes on, else say how to quit."""
        if self.host is not None and self.host.is_running:
            self.ask_to_cancel()
        else:
            self.notify("ctrl+q quits", markup=False)

    def die(self, number: int) -> None:
        """End at once because a signal said so; the run's processes end too."""
        self.end(128 + number)

    def end(self, code: int) -> None:
        """End the run's process, then the screens."""
        if self.host is not None and self.host.is_running:
            self.host.end()
        self.exit(code)


def show(wishes: Wishes, world: World) -> int:
    """Run the terminal program; return the exit code."""
    if wishes.replay:
        from advisor.store import Run  # noqa: PLC0415 - only when asked for

        Run(pathlib.Path(wishes.replay)).header()  # what is wrong with it is told before the screen is taken
    app = AdvisorApp(wishes, world)
    code = app.run(mouse=not wishes.no_mouse)
    return app.return_code or 0 if code is None else code
