"""Act on the answer of a run: show its code, verify it and export it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from advisor.tui.answer import RunAnswer
from advisor.tui.dialogs.questions import FileDialog
from advisor.tui.rendering import text

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp


def show_code(app: AdvisorApp, answer: RunAnswer, arm: str) -> None:
    if answer.run is not None:
        app.run_in_terminal(["recipe", str(answer.run.directory), "--workflow", arm])


def verify(app: AdvisorApp, answer: RunAnswer, arm: str) -> None:
    if answer.run is None or app.run_controller.refuse_if_busy():
        return
    app.ask_to_run(
        f"Run the code of {text.printable(arm, 60)} and check its outputs and its speed?",
        "It takes as long as the build, and a few seconds.",
        ("verify", answer.document.run_id, "--workflow", arm),
    )


def export(app: AdvisorApp, answer: RunAnswer, *, explored: bool = False) -> None:
    """Write an answer, with its recipe if the run is stored, to a file that the user names."""
    name = f"p3-advisor-{answer.document.run_id}{'-explored' if explored else ''}.html"
    make_content = functools.partial(render_answer, answer)
    app.push_screen(FileDialog(name, [".html", ".md", ".csv", ".json"], make_content))


def render_answer(answer: RunAnswer, extension: str) -> str:
    """Return an answer in the format of an extension; a page has the recipe of a stored run."""
    from advisor.report import exports  # noqa: PLC0415 - template engines import slowly
    from advisor.report.recipes import server_recipe  # noqa: PLC0415 - as above

    run, name = answer.run, extension.removeprefix(".")
    recipe = server_recipe.render_recommended(answer.document, run) if run else None
    return str(exports.write(name, answer.document, recipe=recipe))
