"""Write a report to a file in the format of its suffix."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

from advisor.errors import FormatError


def save_by_suffix(
    file: str | pathlib.Path, renderers: Mapping[str, Callable[[], str]]
) -> pathlib.Path:
    """Write what the renderer of the file's suffix returns; return the path.

    Raise `FormatError` for another suffix.
    """
    path = pathlib.Path(file)
    if path.suffix not in renderers:
        raise FormatError(f"unknown format {path.suffix!r}", f"use one of {', '.join(renderers)}")
    path.write_text(renderers[path.suffix](), encoding="utf-8")
    return path
