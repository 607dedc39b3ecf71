"""Write a file or directory so that it exists complete or not at all."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator


@contextlib.contextmanager
def replace_when_complete(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a path to write to, and rename it to `path` when the block ends without an error.

    A killed process leaves only `part-NAME`, which the next process overwrites.
    """
    partial = path.with_name(f"part-{path.name}")
    yield partial
    partial.rename(path)
