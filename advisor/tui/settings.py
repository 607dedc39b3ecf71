"""The user's settings file: colour theme and key bindings."""

from __future__ import annotations

import importlib
import pathlib
import pkgutil
import re
from collections.abc import Iterable

import msgspec

from advisor import tui
from advisor.domain.errors import SettingsError, choose_among
from advisor.store.files import write_atomically
from advisor.tui.widgets import ACTION_NAMES

#: The line of the colour theme in the settings.
THEME_LINE = re.compile(r"^[ \t]*theme[ \t]*=.*$", re.MULTILINE)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user's `config.toml` sets: the colour theme and key bindings."""

    theme: str = ""
    #: Keys by action, comma-separated; the actions are the ids of the bindings of the screens.
    keys: dict[str, str] = {}


def read_settings(file: pathlib.Path) -> Settings:
    """Return the settings, or defaults without a file; raise `SettingsError`."""
    try:
        return msgspec.toml.decode(file.read_bytes(), type=Settings)
    except FileNotFoundError:
        return Settings()
    except OSError as problem:
        raise SettingsError(
            f"{file} cannot be read: {problem.strerror}", "make it readable, or remove it"
        ) from problem
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        raise SettingsError(f"{file}: {problem}", "use only theme and [keys]") from problem


def save_theme(file: pathlib.Path, theme: str) -> None:
    """Set the theme and keep the rest of the file; raise `SettingsError` if it is not writable."""
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        line = f'theme = "{theme}"'
        top, table, rest = (
            text.partition("\n[") if not text.startswith("[") else ("", "[", text[1:])
        )
        top, has_theme = THEME_LINE.subn(lambda _: line, top, count=1)
        top = top if has_theme else f"{line}\n{top}"
        write_atomically(file, (top + table + rest).encode())
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(
            f"{file} cannot be written: {problem}",
            "make it writable; the theme is lost when you quit",
        ) from problem


def check_actions(keys: Iterable[str]) -> None:
    """Raise `SettingsError` for an action that no screen has; load all screens for any action."""
    for module in pkgutil.walk_packages(tui.__path__, "advisor.tui.") if keys else ():
        importlib.import_module(module.name)
    for action in keys:
        if action not in ACTION_NAMES:
            raise SettingsError(
                f"[keys] of the settings has the unknown action {action!r}",
                choose_among(action, sorted(ACTION_NAMES)),
            )
