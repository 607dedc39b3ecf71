"""What screens may ask of the app: the interfaces between those that draw and those that act."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.errors import UserError
from advisor.question.answers import Answers
from advisor.tui.background import Background

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.domain.run_state import RunState
    from advisor.pipeline.decision import Decision
    from advisor.report.document import RunDocument
    from advisor.tui.run.host_process import Host
    from advisor.tui.run.session import Session


class Running(Protocol):
    """The run that is shown, as screens know it."""

    session: Session | None

    @property
    def owned(self) -> Host | None:
        """The process of ours that works on a run, if there is one."""

    def open(self, run_id: str) -> None:
        """Show a stored run: its results, or its probes if it goes on."""

    def show_elsewhere(self, document: RunDocument) -> None:
        """Show what is known of a GPU that is not attached."""

    def resume(self, run_id: str) -> None:
        """Go on with a run that stopped."""

    def retry_failed(self, decision: Decision) -> None:
        """Measure what failed in a run once more, as a run of its own."""

    def compare(self, first: str, second: str) -> None:
        """Show two stored runs side by side."""

    def export(
        self, document: RunDocument, state: RunState | None = None, *, explored: bool = False
    ) -> None:
        """Write a document where the user says; `state` is that of its run."""

    def toggle_pause(self) -> None:
        """Pause after the current section, or go on."""

    def ask_to_cancel(self) -> None:
        """End the run, after asking; then show what there is."""


class Advisor(Protocol):
    """The app, as screens know it."""

    answers: Answers
    background: Background
    catalogue: Catalogue
    machine: Machine | None
    world: Context

    @property
    def runs(self) -> Running:
        """The run that is shown."""

    def run_words(self) -> str:
        """Return what goes on, for the line at the top."""

    def run_next_step(self) -> None:
        """Go on to the next question."""

    def propose(self) -> None:
        """Make the plan and show it."""

    def start_run(self) -> None:
        """Make a run of the answers, and have it worked on."""

    def tell_problem(self, problem: UserError) -> None:
        """Say what does not fit and what to do."""

    def action_ask_anew(self) -> None:
        """Show the questions."""

    def action_history(self) -> None:
        """Show the stored runs."""

    def action_fleet(self) -> None:
        """Show what the newest fleet has answered."""

    def action_doctor(self) -> None:
        """Show what is wrong with this machine."""
