"""Make plans and start runs: of the answers, of failed arms, and of what is undecided."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import cast

import msgspec
from textual.app import App

from advisor.domain.answer import Answer
from advisor.domain.machine import QuietProblem
from advisor.domain.sweep import MixedLengths
from advisor.pipeline.answers import absent_gpu
from advisor.pipeline.draft import DraftRun, create, propose
from advisor.pipeline.further_run import (
    arms_to_retry,
    further_budget,
    propose_again,
    undecided_workflows,
)
from advisor.pipeline.sweeps.runs import propose_sweep, start_sweep
from advisor.question.answers import Answers
from advisor.store.runs import Run
from advisor.tui.answer import RunAnswer
from advisor.tui.dialogs.load_dialog import LoadDialog
from advisor.tui.interfaces import AppInterface
from advisor.tui.run.machine_check import find_load_problems
from advisor.tui.screens.absent_gpu import AbsentGpuScreen


class RunStarter:
    """Drafts runs, checks whether the machine is quiet, and starts them."""

    def __init__(self, app: App[int]) -> None:
        self._app = app
        self._app_interface = cast("AppInterface", app)

    def draft(self) -> DraftRun:
        """Return the plan of the current answers; for several lengths that of the shortest."""
        app, mix = self._app_interface, self._app_interface.lengths.parse()
        if len(mix) > 1:
            return propose_sweep(app.answers, mix, app.context, app.known_machine)
        return propose(app.answers, app.context, app.known_machine)

    def draft_or_answer(self) -> DraftRun | Answer:
        """Return the plan of the current answers, or the answer for a GPU that is absent."""
        return absent_gpu.draft_or_answer(
            self._app_interface.answers, self._app_interface.context, self.draft
        )

    def propose(self, show: Callable[[DraftRun | Answer], object]) -> None:
        """Make the plan of the current answers in the background and show it."""
        self._app_interface.background.start("plan", self.draft_or_answer, show)

    def start_from_answers(self) -> None:
        """Start a run, or the sweep of several lengths, with the current answers.

        Show the answer for a GPU that is absent.
        """
        answers, mix = self._app_interface.answers, self._app_interface.lengths.parse()
        if len(mix) > 1:
            self.start(self.draft_or_answer, functools.partial(self._create_sweep, answers, mix))
        else:
            self.start(self.draft_or_answer)

    def _create_sweep(
        self, answers: Answers, mix: Sequence[MixedLengths], drafted: DraftRun
    ) -> Run:
        """Store a sweep whose runs wait for a quiet machine as long as `drafted`.

        Return its first run.
        """
        seconds = drafted.question.wait_seconds
        if seconds:
            answers = msgspec.structs.replace(answers, wait_for_quiet=f"{seconds:g}s")
        return start_sweep(answers, mix, self._app_interface.context)

    def start(
        self,
        draft: Callable[[], DraftRun | Answer],
        create_run: Callable[[DraftRun], Run] | None = None,
    ) -> None:
        """Create a run from a draft and start it; show the answer for a GPU that is absent."""
        if self._app_interface.run_controller.refuse_if_busy():
            return
        self._app.notify("making the plan ...", timeout=2, markup=False)

        context = self._app_interface.context
        create_run = create_run or functools.partial(create, context=context)

        def check() -> tuple[DraftRun | Answer, tuple[QuietProblem, ...]]:
            drafted = draft()
            if isinstance(drafted, Answer):
                return drafted, ()
            return drafted, find_load_problems(drafted, context)

        def show(checked: tuple[DraftRun | Answer, tuple[QuietProblem, ...]]) -> None:
            drafted, problems = checked
            if isinstance(drafted, Answer):
                self.show_absent_gpu_answer(drafted)
            elif problems and not drafted.question.wait_seconds:
                self._ask_to_wait(drafted, problems, create_run)
            else:
                self._create_and_start(drafted, create_run)

        self._app_interface.background.start("start", check, show)

    def _ask_to_wait(
        self,
        drafted: DraftRun,
        problems: tuple[QuietProblem, ...],
        create_run: Callable[[DraftRun], Run],
    ) -> None:
        """Start the run on a busy machine only if the user chooses so."""

        def on_answer(wait_seconds: float | None) -> None:
            if wait_seconds is not None:
                question = msgspec.structs.replace(drafted.question, wait_seconds=wait_seconds)
                self._create_and_start(dataclasses.replace(drafted, question=question), create_run)

        self._app.push_screen(LoadDialog(problems), on_answer)

    def _create_and_start(self, drafted: DraftRun, create_run: Callable[[DraftRun], Run]) -> None:
        self._app_interface.background.start(
            "create", lambda: create_run(drafted), self._app_interface.run_controller.run
        )

    def show_absent_gpu_answer(self, document: Answer) -> None:
        """Show the answer for a GPU that is not attached."""
        self._app.clear_notifications()  # they would cover the answer
        self._app.push_screen(AbsentGpuScreen(document))

    def retry_failed(self, answer: RunAnswer) -> None:
        """Measure the failed arms of a run again.

        They are measured in a new run, because times of two runs must not be ranked together.
        """
        run, failed = answer.run, arms_to_retry(answer.document)
        if run is not None and failed:
            context = self._app_interface.context
            self.start(lambda: propose_again(run.header(), failed, context))

    def measure_again(self, answer: RunAnswer) -> None:
        """Measure what an answer leaves undecided for longer, in a new run."""
        if answer.run is None:
            return
        header, context = answer.run.header(), self._app_interface.context
        workflows = undecided_workflows(answer.recommendation, header.question)
        budget = further_budget(answer.document, answer.catalogue)
        names = ", ".join(workflows) or "all workflows"
        self._app.notify(f"measuring {names} for {budget.measuring_seconds:g} s", markup=False)
        self.start(lambda: propose_again(header, workflows, context, budget))
