"""Read files in directories that the code of others can write."""

from __future__ import annotations

import errno
import io
import os
import pathlib
import stat


def open_regular(file: pathlib.Path) -> tuple[io.BufferedReader, int]:
    """Return the open file and its size; never wait, and follow no link.

    Raise `OSError` for what is no regular file, such as a FIFO or a directory.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(file))
    return open(descriptor, "rb"), status.st_size  # noqa: PTH123 - a descriptor


def read_tail(file: pathlib.Path, most: int) -> bytes:
    """Return the last bytes of a regular file; raise `OSError` for another one."""
    opened, size = open_regular(file)
    with opened:
        opened.seek(max(size - most, 0))
        return opened.read(most)
