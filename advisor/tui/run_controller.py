"""The run that is shown, and the process of ours that works on it: begun, followed, paused, cancelled, opened again."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Callable
from typing import cast

from textual.app import App

from advisor.domain.run import Header
from advisor.domain.run_state import RunState
from advisor.errors import UserError
from advisor.pipeline.decision import Decision, decide
from advisor.pipeline.draft import DraftRun, create
from advisor.pipeline.execution import check_own
from advisor.report.document import RunDocument
from advisor.store import Run
from advisor.tui import documents
from advisor.tui.comparing import Sides, lay_side_by_side
from advisor.tui.interfaces import Advisor
from advisor.tui.run.host_process import Host
from advisor.tui.run.retry import failed_arms, propose_again
from advisor.tui.run.session import Session
from advisor.tui.screens.compare import Compare
from advisor.tui.screens.dialogs import Cancelling, Export
from advisor.tui.screens.elsewhere import Elsewhere
from advisor.tui.screens.live import Live
from advisor.tui.screens.results import Results

BUSY = "a run goes on; cancel it first, or wait for it"
NOT_OURS = "this run belongs to another process, or is a recording"


class Runs:
    """At most one run is shown, and at most one process of ours works."""

    def __init__(self, app: App[int], start_host: Callable[[Run], Host] = Host) -> None:
        self._app = app
        self._advisor = cast("Advisor", app)
        self._start_host = start_host
        self.session: Session | None = None

    @property
    def owned(self) -> Host | None:
        """The process of ours that works on a run, if there is one."""
        host = self.session.host if self.session is not None else None
        return host if host is not None and host.is_running else None

    def words(self) -> str:
        """Return what goes on, for the line at the top."""
        if self.session is None or self.session.is_over or not self.session.is_alive:
            return ""
        return f"run {self.session.follower.run.directory.name[-4:]} goes on "

    def start(self, make_proposal: Callable[[], DraftRun | RunDocument]) -> None:
        """Make a run of what is proposed, and have it worked on; where the GPU is not attached, show what is known of it."""
        if self._is_busy():
            return
        self._app.notify("making the plan ...", timeout=2, markup=False)

        def make() -> Run | RunDocument:
            found = make_proposal()
            return found if isinstance(found, RunDocument) else create(found, self._advisor.world)

        def begin(made: Run | RunDocument) -> None:
            if isinstance(made, RunDocument):
                self.show_elsewhere(made)
            else:
                self._work_on(made)

        self._advisor.background.do("start", make, begin)

    def show_elsewhere(self, document: RunDocument) -> None:
        """Show what is known of a GPU that is not attached."""
        self._app.push_screen(Elsewhere(document))

    def retry_failed(self, decision: Decision) -> None:
        """Measure what failed in a run once more, as a run of its own: times of two runs are not ranked together."""
        failed = failed_arms(decision)
        if failed:
            self.start(lambda: propose_again(decision.header, failed))

    def _is_busy(self) -> bool:
        if self.owned is not None:
            self._app.notify(BUSY, severity="warning", markup=False)
        return self.owned is not None

    def _work_on(self, run: Run) -> None:
        self.show(Session.of(run, self._start_host(run)))

    def replay(self, directory: str, speed: float) -> None:
        """Show a recorded run."""
        self.show(Session.replay(directory, speed))

    def show(self, session: Session) -> None:
        """Show a run while it goes on."""
        self.session = session
        self._advisor.action_ask_anew()
        self._app.push_screen(Live())
        self._tick(session)

    def _tick(self, session: Session) -> None:
        """Look at the run, draw what is new, and look again later."""
        if (
            session is not self.session or not self._app.screen_stack
        ):  # another run is shown, or the program is ending
            return
        try:
            session.look()
        except UserError as problem:
            self._advisor.tell_problem(problem)
            return
        if isinstance(self._app.screen, Live):
            self._app.screen.draw()
        if session.is_over:
            self._app.call_later(self.show_results)
            return
        rank = session.ranking(asyncio.get_running_loop().time())
        if rank is not None:
            self._advisor.background.do("rank", rank, session.lead)
        self._app.set_timer(session.seconds_to_next_look, lambda: self._tick(session))

    def show_results(self) -> None:
        """Decide from what the run has come to, and show it."""
        if self.session is not None:
            self._advisor.background.do("results", self.session.judge, self.show_decision)

    def show_decision(self, decision: Decision) -> None:
        """Show results in place of the run."""
        self._advisor.action_ask_anew()
        self._app.push_screen(Results(decision))

    def open(self, run_id: str) -> None:
        """Show a stored run: its results, or its probes if it goes on."""
        run = self._find(run_id)
        if run is None:
            return
        if (
            self.owned is not None
            and self.session is not None
            and self.session.follower.run.directory == run.directory
        ):
            self.show(self.session)
        elif not self._is_busy():
            self._open(run)

    def _open(self, run: Run) -> None:
        try:
            session = Session.of(run)
            session.look()
        except UserError as problem:
            self._advisor.tell_problem(problem)
            return
        if session.is_alive:
            self.show(session)
        else:
            self.session = session
            self.show_results()

    def resume(self, run_id: str) -> None:
        """Go on with a run that stopped."""
        run = self._find(run_id, check_own)
        if run is None:
            return
        if run.is_active():
            self.open(run_id)
        elif not self._is_busy():
            self._work_on(run)

    def _find(self, run_id: str, check: Callable[[Header], None] = lambda _: None) -> Run | None:
        """Return the run; what keeps it from being read, and what `check` raises, is told."""
        try:
            run = self._advisor.world.store.find(run_id)
            check(run.header())
            run.state()
        except UserError as problem:
            self._advisor.tell_problem(problem)
            return None
        return run

    def compare(self, first: str, second: str) -> None:
        """Show two stored runs side by side."""

        def judge() -> Sides:
            decisions = [decide(self._advisor.world.store.find(name)) for name in (first, second)]
            return lay_side_by_side(*map(documents.document_of, decisions))

        self._advisor.background.do(
            "compare", judge, lambda sides: self._app.push_screen(Compare(sides))
        )

    def export(
        self, document: RunDocument, state: RunState | None = None, *, explored: bool = False
    ) -> None:
        """Write a document where the user says; `state` is that of its run."""

        def write(file: pathlib.Path | None) -> None:
            if file is None:
                return
            try:
                documents.write(document, file, state)
            except UserError as problem:
                self._advisor.tell_problem(problem)
            else:
                self._app.notify(f"written: {file.absolute()}", markup=False)

        name = f"p3-advisor-{document.run_id}{'-explored' if explored else ''}.html"
        self._app.push_screen(Export(pathlib.Path.cwd() / name, list(documents.MAKERS)), write)

    def toggle_pause(self) -> None:
        """Pause after the current section, or go on."""
        if self.session is None or not self.session.toggle_pause():
            self._app.notify(NOT_OURS, markup=False)

    def ask_to_cancel(self) -> None:
        """End the run, after asking; then show what there is."""

        def decided(yes: bool | None) -> None:  # noqa: FBT001 - Textual's callback
            if yes and self.owned is not None:
                self.owned.cancel()
            if yes:
                self.show_results()

        if self.session is not None and not self.session.is_alive:
            self.show_results()
        elif self.owned is None:
            self._app.notify(NOT_OURS, markup=False)
        else:
            self._app.push_screen(Cancelling(), decided)

    def leave_alone(self) -> None:
        """Let the run go on without us."""
        if self.owned is not None:
            self.owned.leave_alone()
            self.session = None

    def end(self) -> None:
        """End the process that works on the run."""
        if self.owned is not None:
            self.owned.end()
