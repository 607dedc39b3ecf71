"""What screens may ask of the app: the interface between those that draw and the one that acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.question.answers import Answers

if TYPE_CHECKING:
    from advisor.tui.background import Background
    from advisor.tui.runs import Runs
    from advisor.world import World


class Advisor(Protocol):
    """The app, as screens know it."""

    answers: Answers
    background: Background
    catalogue: Catalogue
    machine: Machine | None
    world: World

    @property
    def runs(self) -> Runs:
        """The run that is shown."""

    def run_words(self) -> str:
        """Return what goes on, for the line at the top."""

    def run_next_step(self) -> None:
        """Go on to the next question."""

    def propose(self) -> None:
        """Make the plan and show it."""

    def start_run(self) -> None:
        """Make a run of the answers, and have it worked on."""
