"""Apply the settings of the user: themes, keys and a terminal without Unicode."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from textual.app import App
from textual.theme import Theme

from advisor.errors import UserError
from advisor.settings import Settings, read, save_theme
from advisor.tui.options import LaunchOptions
from advisor.tui.rendering.themes import THEMES


class Appearance:
    """Themes and keys of the app; saves the theme that the user chooses."""

    def __init__(
        self,
        app: App[int],
        options: LaunchOptions,
        settings_file: pathlib.Path | None,
        *,
        no_color: bool,
    ) -> None:
        """Read the settings and register the themes."""
        self._app, self._options, self._file = app, options, settings_file
        self._settings = read(settings_file) if settings_file else Settings()
        self._show_error: Callable[[UserError], None] = lambda _: None
        for theme in THEMES:
            app.register_theme(theme)
        if not no_color:
            app.theme = "p3-dark"
        self._saved_theme = app.theme

    def apply(self, show_error: Callable[[UserError], None]) -> None:
        """Apply the settings to the running app; `show_error` gets what cannot be saved."""
        app, self._show_error = self._app, show_error
        if self._options.ascii_only:
            from advisor.tui.rendering.ascii_filter import AsciiFilter  # noqa: PLC0415 - rarely used

            app._filters.append(AsciiFilter())  # noqa: SLF001 - Textual has no public list
        app.set_keymap(self._settings.keys)
        theme = self._options.theme or self._settings.theme
        if theme in app.available_themes and not app.ansi_color:
            app.theme = theme
        self._saved_theme = app.theme
        app.theme_changed_signal.subscribe(app, self._save_theme)

    def _save_theme(self, theme: Theme) -> None:
        if theme.name == self._saved_theme or self._file is None or self._app.ansi_color:
            return
        self._saved_theme = theme.name
        try:
            save_theme(self._file, theme.name)
        except UserError as error:
            self._show_error(error)
