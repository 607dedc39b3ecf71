"""Start the screens, and say what happened when they end badly."""

from __future__ import annotations

import pathlib

from advisor.context import Context
from advisor.errors import SettingsError
from advisor.settings import default_file
from advisor.store import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions


def show(wishes: LaunchOptions, world: Context) -> int:
    """Run the terminal program; return the exit code."""
    if wishes.replay:
        replayed = Run(pathlib.Path(wishes.replay))
        # What is wrong with it is told before the screen is taken.
        replayed.header()
        replayed.state()
    app = AdvisorApp(wishes, world, settings_file=default_file())
    if wishes.theme and wishes.theme not in app.available_themes:
        raise SettingsError(
            f"there is no theme {wishes.theme!r}",
            f"use one of {', '.join(sorted(app.available_themes))}",
        )
    code = app.run(mouse=not wishes.no_mouse)
    if app.defect is not None:
        raise app.defect
    return app.return_code or 0 if code is None else code
