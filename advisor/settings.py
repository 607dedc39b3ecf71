"""Read and write `config.toml` in the user's configuration directory.

It sets the colour theme, key bindings, and prices of devices for fleets::

    theme = "p3-high-contrast"

    [keys]
    export = "ctrl+e"

    [prices]
    H200 = 3.50
"""

from __future__ import annotations

import pathlib
import re
from typing import Annotated

import msgspec
import platformdirs

from advisor.errors import SettingsError, choose_among
from advisor.system import write_atomically

#: Actions that `[keys]` can rebind: the ids of the bindings.
ACTIONS = {
    "back",
    "cancel",
    "code",
    "compare",
    "copy",
    "delete",
    "detail",
    "doctor",
    "excluded",
    "export",
    "filter",
    "fleet",
    "go-on",
    "help",
    "history",
    "leave-out",
    "log",
    "make",
    "mark",
    "measure-again",
    "new",
    "next",
    "next-arm",
    "note",
    "open",
    "pause",
    "preset",
    "previous",
    "quit",
    "resume",
    "retry",
    "run",
    "skip",
    "sort",
    "task",
    "undo",
    "verify",
    "weights",
}
THEME_LINE = re.compile(r"^[ \t]*theme[ \t]*=.*$", re.MULTILINE)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's settings."""

    theme: str = ""
    #: Keys by action, comma-separated.
    keys: dict[str, str] = {}
    #: Price of a device per hour, by its kind in fleets.
    prices: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1e9)]] = {}


def default_file() -> pathlib.Path:
    """Return the path of the settings file."""
    return platformdirs.user_config_path("p3-advisor") / "config.toml"


def read(file: pathlib.Path) -> Settings:
    """Return the settings, or defaults without a file; raise `SettingsError`."""
    try:
        settings = msgspec.toml.decode(file.read_bytes(), type=Settings)
    except FileNotFoundError:
        return Settings()
    except OSError as problem:
        raise SettingsError(
            f"{file} cannot be read: {problem.strerror}", "make it readable, or remove it"
        ) from problem
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        raise SettingsError(
            f"{file}: {problem}",
            "use only theme, [keys] and [prices]",
        ) from problem
    for action in settings.keys:
        if action not in ACTIONS:
            raise SettingsError(
                f"{file}: [keys] has the unknown action {action!r}",
                choose_among(action, sorted(ACTIONS)),
            )
    return settings


def save_theme(file: pathlib.Path, theme: str) -> None:
    """Set the theme and keep the rest of the file; raise `SettingsError` if it is not writable."""
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        line = f'theme = "{theme}"'
        top, table, rest = (
            text.partition("\n[") if not text.startswith("[") else ("", "[", text[1:])
        )
        top = (
            THEME_LINE.sub(lambda _: line, top, count=1)
            if THEME_LINE.search(top)
            else f"{line}\n{top}"
        )
        write_atomically(file, (top + table + rest).encode())
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(
            f"{file} cannot be written: {problem}",
            "make it writable; the theme is lost when you quit",
        ) from problem
