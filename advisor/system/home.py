"""Read the directory for the program's files from the environment."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

HOME_VARIABLE = "P3_ADVISOR_HOME"


def named_home(environment: Mapping[str, str]) -> pathlib.Path | None:
    """Return the absolute path in `P3_ADVISOR_HOME`; None if it is not set."""
    home = environment.get(HOME_VARIABLE)
    return pathlib.Path(home).absolute() if home else None
