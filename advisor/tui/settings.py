"""`config.toml` in the user's configuration directory: a theme, and other keys for actions.

theme = "p3-high-contrast"
[keys]
export = "ctrl+e"
"""

from __future__ import annotations

import pathlib

import msgspec
import platformdirs

from advisor.errors import SettingsError


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user has set for good."""

    theme: str = ""
    #: Keys by the id of an action, several separated by commas.
    keys: dict[str, str] = {}


def default_file() -> pathlib.Path:
    """Return where the settings are looked for."""
    return platformdirs.user_config_path("p3-advisor") / "config.toml"


def read(file: pathlib.Path) -> Settings:
    """Return the settings; those of a user who has none are empty. Raise `SettingsError` for a file that does not fit."""
    try:
        return msgspec.toml.decode(file.read_bytes(), type=Settings)
    except FileNotFoundError:
        return Settings()
    except OSError as problem:
        raise SettingsError(f"{file} cannot be read: {problem.strerror}", "make it readable, or remove it") from problem
    except (msgspec.DecodeError, ValueError) as problem:
        raise SettingsError(f"{file}: {problem}", "it may hold theme and [keys]; remove what else there is") from problem
