"""Act on the answer of a run: show its code, verify it, compare it and export it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import cast

from textual.app import App

from advisor.errors import UserError
from advisor.report.opening import open_answer
from advisor.report.sweeps.sweep_document import SweepDocument
from advisor.system.import_path import ADVISOR_COMMAND
from advisor.tui.answer import RunAnswer
from advisor.tui.dialogs.code_dialog import CodeDialog
from advisor.tui.dialogs.export_dialog import ExportDialog
from advisor.tui.dialogs.verify_dialog import VerifyDialog
from advisor.tui.interfaces import AppInterface
from advisor.tui.run.comparison import RunComparison, compare_runs
from advisor.tui.run.export import (
    RENDERERS,
    SWEEP_RENDERERS,
    write_document,
    write_sweep,
)
from advisor.tui.screens.compare import CompareScreen


class AnswerActions:
    """What a user can do with a finished answer; none of it changes the run."""

    def __init__(self, app: App[int]) -> None:
        self._app = app
        self._app_interface = cast("AppInterface", app)

    def show_code(self, answer: RunAnswer, arm: str) -> None:
        """Show the script that does what was measured, or the server that was under load."""
        run, probes = answer.run, self._app_interface.context.probes
        if run is None:
            return

        def compose_script() -> str:
            # Most sessions need no script.
            from advisor.report.recipes import (  # noqa: PLC0415
                found_recipe,
                script_recipe,
                server_recipe,
            )

            document = answer.document
            entry, found = found_recipe.choose(document, run, arm, probes)
            if document.question.load is not None:
                return server_recipe.render_server(document, entry, found, probes)
            return script_recipe.render(document, entry, found)

        self._app_interface.background.start(
            "code", compose_script, lambda script: self._app.push_screen(CodeDialog(arm, script))
        )

    def verify(self, answer: RunAnswer, arm: str) -> None:
        """Run the script of an arm and check that it reaches the measured speed."""
        if answer.run is None or self._app_interface.run_controller.refuse_if_busy():
            return
        arguments = ("verify", answer.document.run_id, "--workflow", arm)
        command, shown = (*ADVISOR_COMMAND, *arguments), " ".join(("p3-advisor", *arguments))
        environment = self._app_interface.context.environment
        self._app.push_screen(VerifyDialog(arm, shown, command, environment))

    def compare(self, first: str, second: str) -> None:
        """Show the comparison of two stored runs."""
        store = self._app_interface.context.store

        def compare_stored() -> RunComparison:
            return compare_runs(open_answer(first, store), open_answer(second, store))

        self._app_interface.background.start(
            "compare", compare_stored, lambda found: self._app.push_screen(CompareScreen(found))
        )

    def export(self, answer: RunAnswer, *, explored: bool = False) -> None:
        """Write an answer, with its recipe if the run is stored, to a file that the user names."""
        document, run = answer.document, answer.run

        def make_script() -> str | None:
            # Most sessions export nothing.
            from advisor.report.recipes import short_recipe  # noqa: PLC0415

            probes = self._app_interface.context.probes
            return short_recipe.render_recommended(document, run, probes) if run else None

        name = f"p3-advisor-{document.run_id}{'-explored' if explored else ''}.html"
        self._ask_for_file(
            ExportDialog(pathlib.Path.cwd() / name, list(RENDERERS)),
            lambda file: write_document(document, file, make_script),
        )

    def export_sweep(self, document: SweepDocument) -> None:
        """Write the document of a sweep to a file that the user names."""
        file = pathlib.Path.cwd() / f"p3-advisor-{document.sweep_id}.html"
        self._ask_for_file(
            ExportDialog(file, list(SWEEP_RENDERERS), subject="sweep"),
            lambda file: write_sweep(document, file),
        )

    def _ask_for_file(self, dialog: ExportDialog, write: Callable[[pathlib.Path], None]) -> None:
        """Write to the file that the user names, and show why it fails."""

        def on_answer(file: pathlib.Path | None) -> None:
            if file is None:
                return
            try:
                write(file)
            except UserError as error:
                self._app_interface.show_error(error)
            else:
                self._app.notify(f"written: {file.absolute()}", markup=False)

        self._app.push_screen(dialog, on_answer)
