"""Start the terminal program: its colours, tasks in the background, and its crash report."""

from __future__ import annotations

import collections
import pathlib
import threading
import traceback
from collections.abc import Callable
from typing import TypeVar

import msgspec
import platformdirs
from textual.theme import Theme

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.domain.errors import DefectError, OptionValueError, UserError
from advisor.domain.version import __version__
from advisor.store.store import default_home

#: Colour never carries information alone: a glyph or a word repeats it.
DARK = Theme(
    name="p3-dark",
    primary="#56b4e9",
    secondary="#8fa3b8",
    accent="#e69f00",
    success="#2bb58a",
    warning="#f0c244",
    error="#ef6f53",
    foreground="#d9e0e8",
    background="#10151b",
    surface="#151c24",
    panel="#1d2732",
    dark=True,
    variables={
        "footer-key-foreground": "#e69f00",
        "block-cursor-background": "#2d5a7b",
        "block-cursor-foreground": "#ffffff",
    },
)
HIGH_CONTRAST = Theme(
    name="p3-high-contrast",
    primary="#ffffff",
    secondary="#ffffff",
    accent="#ffff00",
    success="#00ff80",
    warning="#ffff00",
    error="#ff8080",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#202020",
    dark=True,
    variables={
        "footer-key-foreground": "#ffff00",
        "block-cursor-background": "#ffff00",
        "block-cursor-foreground": "#000000",
    },
)
THEMES = (DARK, HIGH_CONTRAST)


def read_theme(file: pathlib.Path | None) -> str:
    """Return the name of the theme that was chosen last; an empty text where none is known."""
    try:
        return file.read_text(encoding="utf-8") if file is not None else ""
    except (OSError, UnicodeDecodeError):
        return ""


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the terminal program; an empty text means none."""

    run_options: RunOptions = RunOptions()
    open: str = ""
    theme: str = ""
    no_color: bool = False
    no_mouse: bool = False


def run_app(options: LaunchOptions, context: Context) -> tuple[int, str]:
    """Run the terminal program; return the exit code, and a line for the shell or an empty text.

    Raise `OptionValueError` for a theme that there is not, and a `DefectError` after a crash.
    """
    from advisor.tui.app import AdvisorApp  # the app uses the rest of this module

    file = platformdirs.user_config_path("p3-advisor") / "theme"
    app = AdvisorApp(options, context, theme_file=file)
    if options.theme and options.theme not in app.available_themes:
        raise OptionValueError(
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


Value = TypeVar("Value")
#: Calls a function with its arguments in the thread of the screens; callable from any thread.
CallInApp = Callable[..., object]


class BackgroundTasks:
    """Runs tasks in threads; a task supersedes earlier tasks of the same kind."""

    def __init__(self, call_in_app: CallInApp, show_error: Callable[[UserError], None]) -> None:
        self._call_in_app = call_in_app
        self._show_error = show_error
        self._latest: collections.Counter[str] = collections.Counter()
        threading.excepthook = self._raise_in_app

    def start(
        self, kind: str, work: Callable[[], Value], on_result: Callable[[Value], object]
    ) -> None:
        """Call `work` in a thread, then `on_result` with its value in the thread of the screens.

        A value is dropped if a later task of the same kind was started. A `UserError` is shown;
        any other exception ends the program.
        """
        self._latest[kind] += 1
        number = self._latest[kind]

        def deliver(value: Value) -> None:
            if self._latest[kind] == number:
                on_result(value)

        def run() -> None:
            try:
                value = work()
            except UserError as error:
                self._call_in_app(self._show_error, error)
            else:
                self._call_in_app(deliver, value)

        threading.Thread(target=run, name=kind, daemon=True).start()

    def _raise_in_app(self, failed: threading.ExceptHookArgs) -> None:
        """Raise the exception of a thread where Textual handles it."""
        if failed.exc_value is not None:
            self._call_in_app(_raise, failed.exc_value)


def _raise(error: BaseException) -> None:
    raise error
