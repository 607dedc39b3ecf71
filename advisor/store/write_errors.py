"""Report files of the store that cannot be written as errors of the user."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

from advisor.errors import NotWritableError


@contextlib.contextmanager
def report_unwritable(path: pathlib.Path, next_step: str = "make it writable") -> Iterator[None]:
    """Raise `NotWritableError` for an `OSError` of the block."""
    try:
        yield
    except OSError as problem:
        message = f"{path} cannot be written: {problem.strerror}"
        raise NotWritableError(message, next_step) from problem
