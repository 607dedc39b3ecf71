"""Read and write `config.toml` in the user's configuration directory.

It sets the colour theme and key bindings::

    theme = "p3-high-contrast"

    [keys]
    export = "ctrl+e"
"""

from __future__ import annotations

import pathlib
import re

import msgspec
import platformdirs

from advisor.errors import SettingsError
from advisor.system import write_atomically

THEME_LINE = re.compile(r"^[ \t]*theme[ \t]*=.*$", re.MULTILINE)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's settings."""

    theme: str = ""
    #: Keys by action, comma-separated; the actions are the ids of the bindings of the screens.
    keys: dict[str, str] = {}


def default_file() -> pathlib.Path:
    return platformdirs.user_config_path("p3-advisor") / "config.toml"


def read(file: pathlib.Path) -> Settings:
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
