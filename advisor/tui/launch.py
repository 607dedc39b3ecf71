"""Start the terminal program and return its exit code."""

from __future__ import annotations

import traceback

from advisor.context import Context
from advisor.errors import DefectError, SettingsError
from advisor.settings import default_file
from advisor.store.store import default_home
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.version import __version__


def run_app(options: LaunchOptions, context: Context) -> tuple[int, str]:
    """Run the terminal program; return the exit code, and a line for the shell or an empty text.

    Raise the `UserError` of a recording or theme that cannot be used, and a `DefectError` after a
    crash.
    """
    if options.replay:
        recording = context.store.find(options.replay)
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


def write_crash_report(error: BaseException, context: Context) -> DefectError:
    """Write the traceback to a file in the user's directory; return the error to show.

    It has no values of variables, because they could be secrets.
    """
    directory = default_home(context.environment)
    file = directory / f"crash-{context.now():%Y%m%d-%H%M%S}.txt"
    what = f"p3-advisor has crashed because of an internal error, {type(error).__name__}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"p3-advisor {__version__}\n\n{''.join(traceback.format_exception(error))}",
            encoding="utf-8",
        )
    except OSError as problem:
        return DefectError(
            f"{what}; the report could not be written to {file}: {problem.strerror}",
            "p3-advisor resume continues the run",
        )
    return DefectError(
        f"{what}; the traceback is in {file}",
        "report it with that file; p3-advisor resume continues the run",
    )
