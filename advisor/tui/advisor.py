"""What screens may ask of the app: the interface between those that draw and the one that acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.question.answers import Answers

if TYPE_CHECKING:
    from advisor.pipeline import Decision, World
    from advisor.tui.session import Session


class Advisor(Protocol):
    """The app, as screens know it."""

    answers: Answers
    catalogue: Catalogue
    machine: Machine | None
    session: Session | None
    world: World

    def run_words(self) -> str:
        """Return what goes on, for the line at the top."""

    def run_next_step(self) -> None:
        """Go on to the next question."""

    def propose(self) -> None:
        """Make the plan and show it."""

    def start_run(self) -> None:
        """Make a run of the answers, and have it worked on."""

    def open_run(self, run_id: str) -> None:
        """Show a stored run."""

    def resume(self, run_id: str) -> None:
        """Go on with a run that stopped."""

    def toggle_pause(self) -> None:
        """Pause after the current section, or go on."""

    def ask_to_cancel(self) -> None:
        """End the run, after asking."""

    def export(self, decision: Decision, *, explored: bool) -> None:
        """Write a decision's document where the user says."""

    def examine(self) -> None:
        """Look for what is wrong with this machine, and show it."""
