"""Protocols through which screens call the app and the controller of the run.

Screens import these instead of the implementations, which import the screens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.errors import UserError
from advisor.question.answers import Answers
from advisor.question.sweep import LengthAnswers
from advisor.tui.background import BackgroundTasks

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.domain.answer import Answer
    from advisor.pipeline.draft import DraftRun
    from advisor.report.sweeps.sweep_document import SweepDocument
    from advisor.store.runs import Run
    from advisor.tui.answer import RunAnswer
    from advisor.tui.run.host_process import HostProcess
    from advisor.tui.run.session import RunSession


class RunControllerInterface(Protocol):
    """Controls the run that is shown."""

    session: RunSession | None

    @property
    def owned_host(self) -> HostProcess | None:
        """The host process that this program started, while it is running."""

    def refuse_if_busy(self) -> bool:
        """Return whether this program runs a run already, after notifying the user."""

    def run(self, run: Run) -> None:
        """Start the host process of a run, and of the runs after it in a sweep; show it."""

    def toggle_pause(self) -> None:
        """Pause the run after the current timed section, or continue it."""

    def ask_to_cancel(self) -> None:
        """End the run after a confirmation; then show the results so far."""


class RunOpenerInterface(Protocol):
    """Opens what is stored."""

    def open(self, name: str) -> None:
        """Show the results of a stored run, sweep or document, or the progress of a run."""

    def resume(self, name: str) -> None:
        """Resume a stopped run or sweep."""


class RunStarterInterface(Protocol):
    """Makes plans and starts runs."""

    def propose(self, show: Callable[[DraftRun | Answer], object]) -> None:
        """Make the plan of the current answers in the background and show it."""

    def start_from_answers(self) -> None:
        """Start a run, or a sweep, with the current answers.

        Show the answer for a GPU that is absent.
        """

    def show_absent_gpu_answer(self, document: Answer) -> None:
        """Show the answer for a GPU that is not attached."""

    def retry_failed(self, answer: RunAnswer) -> None:
        """Measure the failed arms of a run again, in a new run."""

    def measure_again(self, answer: RunAnswer) -> None:
        """Measure what an answer leaves undecided for longer, in a new run."""


class AnswerActionsInterface(Protocol):
    """Acts on a finished answer."""

    def show_code(self, answer: RunAnswer, arm: str) -> None:
        """Show the script that does what was measured."""

    def verify(self, answer: RunAnswer, arm: str) -> None:
        """Run the script of an arm and check that it reaches the measured speed."""

    def compare(self, first: str, second: str) -> None:
        """Show the comparison of two stored runs."""

    def export(self, answer: RunAnswer, *, explored: bool = False) -> None:
        """Write a document, with its recipe if the run is stored, to a file that the user names."""

    def export_sweep(self, document: SweepDocument) -> None:
        """Write the document of a sweep to a file that the user names."""


class UnfinishedOfferInterface(Protocol):
    """Offers the newest unfinished run."""

    def refresh(self) -> None:
        """Look for an unfinished run and offer it, unless the title bar shows one in progress."""


class AppInterface(Protocol):
    """What screens and dialogs need of the app."""

    answers: Answers
    #: The lengths of the question; several make a sweep.
    lengths: LengthAnswers
    background: BackgroundTasks
    machine: Machine | None
    context: Context

    @property
    def run_controller(self) -> RunControllerInterface:
        """The controller of the run."""

    @property
    def run_opener(self) -> RunOpenerInterface:
        """Opens stored runs, sweeps and documents."""

    @property
    def run_starter(self) -> RunStarterInterface:
        """Makes plans and starts runs."""

    @property
    def answer_actions(self) -> AnswerActionsInterface:
        """The actions on a finished answer."""

    @property
    def unfinished_offer(self) -> UnfinishedOfferInterface:
        """Offers the newest unfinished run."""

    @property
    def catalogue(self) -> Catalogue:
        """The models, workflows and presets."""

    @property
    def known_machine(self) -> Machine | None:
        """This machine with the interpreter of the answers; None if it was not inspected yet."""

    def run_status(self) -> str:
        """Return the status of the run for the title bar, empty if no run is in progress."""

    def show_error(self, error: UserError) -> None:
        """Show an error and its next step."""

    def action_home(self) -> None:
        """Show the first screen."""

    def action_setup(self) -> None:
        """Show the questions."""

    def action_new_question(self) -> None:
        """Show the first question."""

    def action_go_on(self) -> None:
        """Show the run that is going on, or resume the newest unfinished one."""

    def action_history(self) -> None:
        """Show the stored runs."""

    def action_fleet(self) -> None:
        """Show the answers of the newest fleet."""

    def action_doctor(self) -> None:
        """Show the findings about this machine."""
