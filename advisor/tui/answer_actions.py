"""Act on the answer of a run: show its code, verify it and export it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.errors import UserError
from advisor.report.sweeps.sweep_document import SweepDocument
from advisor.system.import_path import ADVISOR_COMMAND
from advisor.tui.answer import RunAnswer
from advisor.tui.dialogs.code_dialog import CodeDialog
from advisor.tui.dialogs.questions import FileDialog
from advisor.tui.dialogs.verify_dialog import VerifyDialog
from advisor.tui.run.export import (
    RENDERERS,
    SWEEP_RENDERERS,
    write_document,
    write_sweep,
)

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp


def show_code(app: AdvisorApp, answer: RunAnswer, arm: str) -> None:
    """Show the snippet of an arm, or the server that was under load."""
    run = answer.run
    if run is None:
        return

    def compose_code() -> str:
        # Most sessions need no code.
        from advisor.report.recipes import found_recipe, short_recipe  # noqa: PLC0415

        document = answer.document
        return short_recipe.render_short(document, *found_recipe.choose(document, run, arm))

    app.background.start("code", compose_code, lambda code: app.push_screen(CodeDialog(arm, code)))


def verify(app: AdvisorApp, answer: RunAnswer, arm: str) -> None:
    """Run the snippet of an arm and check its outputs and its speed-up."""
    if answer.run is None or app.run_controller.refuse_if_busy():
        return
    arguments = ("verify", answer.document.run_id, "--workflow", arm)
    command, shown = (*ADVISOR_COMMAND, *arguments), " ".join(("p3-advisor", *arguments))
    environment = app.context.environment
    app.push_screen(VerifyDialog(arm, shown, command, environment))


def export(app: AdvisorApp, answer: RunAnswer, *, explored: bool = False) -> None:
    """Write an answer, with its recipe if the run is stored, to a file that the user names."""
    document, run = answer.document, answer.run

    def make_script() -> str | None:
        # Most sessions export nothing.
        from advisor.report.recipes import short_recipe  # noqa: PLC0415

        return short_recipe.render_recommended(document, run) if run else None

    name = f"p3-advisor-{document.run_id}{'-explored' if explored else ''}.html"
    _ask_for_file(
        app,
        FileDialog(name, list(RENDERERS)),
        lambda file: write_document(document, file, make_script),
    )


def export_sweep(app: AdvisorApp, document: SweepDocument) -> None:
    """Write the document of a sweep to a file that the user names."""
    name = f"p3-advisor-{document.sweep_id}.html"
    _ask_for_file(
        app,
        FileDialog(name, list(SWEEP_RENDERERS), subject="sweep"),
        lambda file: write_sweep(document, file),
    )


def _ask_for_file(
    app: AdvisorApp, dialog: FileDialog, write: Callable[[pathlib.Path], None]
) -> None:
    """Write to the file that the user names, and show why it fails."""

    def on_answer(file: pathlib.Path | None) -> None:
        if file is None:
            return
        try:
            write(file)
        except UserError as error:
            app.show_error(error)
        else:
            app.notify(f"written: {file.absolute()}", markup=False)

    app.push_screen(dialog, on_answer)
