"""Write files so that readers see either the old or the new content."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

from advisor.errors import NotWritableError


def write_atomically(file: pathlib.Path, content: bytes) -> None:
    """Replace the content of `file`; make its directory if it is missing.

    Raise `OSError` and leave `file` unchanged if it cannot be written.
    """
    partial = file.with_name(f".{file.name}.part")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial.write_bytes(content)
        partial.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def report_unwritable(path: pathlib.Path, next_step: str = "make it writable") -> Iterator[None]:
    """Raise `NotWritableError` for an `OSError` of the block."""
    try:
        yield
    except OSError as problem:
        message = f"{path} cannot be written: {problem.strerror}"
        raise NotWritableError(message, next_step) from problem
