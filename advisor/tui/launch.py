"""Start the terminal program and return its exit code."""

from __future__ import annotations

import pathlib

from advisor.context import Context
from advisor.errors import SettingsError
from advisor.settings import default_file
from advisor.store.runs import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions


def run_app(options: LaunchOptions, context: Context) -> tuple[int, str]:
    """Run the terminal program; return the exit code, and a line for the shell or an empty text.

    Raise the `UserError` of a recording or theme that cannot be used, and a `DefectError` after a
    crash.
    """
    if options.replay:
        recording = Run(pathlib.Path(options.replay))
        # Errors of the recording must be raised before Textual takes over the terminal.
        recording.header()
        recording.state()
    app = AdvisorApp(options, context, settings_file=default_file())
    if options.theme and options.theme not in app.available_themes:
        raise SettingsError(
            f"there is no theme {options.theme!r}",
            f"use one of {', '.join(sorted(app.available_themes))}",
        )
    code = app.run(mouse=not options.no_mouse)
    if app.defect is not None:
        raise app.defect
    return (app.return_code or 0 if code is None else code), app.exit_message()
