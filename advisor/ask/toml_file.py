"""Decode a TOML file of the rubric."""

from __future__ import annotations

import pathlib
from typing import TypeVar

import msgspec

from advisor.errors import CatalogueError

Content = TypeVar("Content")


def read(file: pathlib.Path, content: type[Content]) -> Content:
    """Decode one TOML file as `content`; raise `CatalogueError`."""
    try:
        return msgspec.toml.decode(file.read_bytes(), type=content)
    except OSError as problem:
        raise CatalogueError(
            f"{file} cannot be read: {problem.strerror}", "name a readable file"
        ) from problem
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        raise CatalogueError(
            f"{file}: {problem}", "compare it with the schema: p3-advisor --spec"
        ) from problem
