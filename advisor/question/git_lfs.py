"""Files that Git LFS has not downloaded: a few lines of text in the place of a model."""

from __future__ import annotations

import pathlib

from advisor.errors import ModelRefusedError

#: How every pointer begins; source: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.
POINTER_START = b"version https://git-lfs.github.com/spec/"


def refuse_pointer(file: pathlib.Path) -> None:
    """Raise `ModelRefusedError` if the file is a pointer of Git LFS."""
    try:
        with file.open("rb") as opened:
            start = opened.read(len(POINTER_START))
    except OSError:
        return  # the worker that opens the model reports it
    if start == POINTER_START:
        raise ModelRefusedError(
            f"{str(file)!r} is a pointer of Git LFS, not the file itself",
            "download the file: run git lfs pull in its repository",
        )
