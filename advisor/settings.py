"""`config.toml` in the user's configuration directory: a theme, other keys for actions, and prices of devices for fleets.

theme = "p3-high-contrast" [keys] export = "ctrl+e" [prices] H200 = 3.50

A theme that is chosen in the command palette is written there; everything else in the file stays as
it is.
"""

from __future__ import annotations

import difflib
import pathlib
import re
from typing import Annotated

import msgspec
import platformdirs

from advisor.errors import SettingsError

#: What `[keys]` can give other keys to: the ids of the bindings.
ACTIONS = {
    "back",
    "cancel",
    "compare",
    "copy",
    "delete",
    "detail",
    "differences",
    "excluded",
    "export",
    "filter",
    "fleet",
    "follow",
    "go-on",
    "help",
    "history",
    "jump",
    "leave-out",
    "log",
    "make",
    "mark",
    "new",
    "next",
    "next-arm",
    "note",
    "observe",
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
    "weights",
}
THEME_LINE = re.compile(r"^[ \t]*theme[ \t]*=.*$", re.MULTILINE)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user has set for good."""

    theme: str = ""
    #: Keys by the id of an action, several separated by commas.
    keys: dict[str, str] = {}
    #: Of a device per hour, by its kind as fleets name it.
    prices: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1e9)]] = {}


def default_file() -> pathlib.Path:
    """Return where the settings are looked for."""
    return platformdirs.user_config_path("p3-advisor") / "config.toml"


def read(file: pathlib.Path) -> Settings:
    """Return the settings; those of a user who has none are empty.

    Raise `SettingsError` for a file that does not fit.
    """
    try:
        settings = msgspec.toml.decode(file.read_bytes(), type=Settings)
    except FileNotFoundError:
        return Settings()
    except OSError as problem:
        raise SettingsError(
            f"{file} cannot be read: {problem.strerror}", "make it readable, or remove it"
        ) from problem
    except (msgspec.DecodeError, ValueError) as problem:
        raise SettingsError(
            f"{file}: {problem}",
            "it may hold theme, [keys] and [prices]; remove what else there is",
        ) from problem
    for action in settings.keys:
        if action not in ACTIONS:
            close = difflib.get_close_matches(action, ACTIONS, n=1)
            next_step = (
                f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(ACTIONS))}"
            )
            raise SettingsError(
                f"{file}: there is no action {action!r} to give a key to", next_step
            )
    return settings


def keep_theme(file: pathlib.Path, theme: str) -> None:
    """Write the theme into the file and leave the rest of it as it is; raise `SettingsError` if that cannot be done."""
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
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{file.name}.part")
        beside.write_text(top + table + rest, encoding="utf-8")
        beside.replace(file)
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(
            f"{file} cannot be written: {problem}",
            "make it writable; the theme holds until you quit",
        ) from problem
