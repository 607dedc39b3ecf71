"""Read files in directories that the code of others can write."""

from __future__ import annotations

import errno
import io
import os
import pathlib
import stat

#: Far more than the events of any run.
MAX_BYTES = 1 << 30


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


def read_regular(file: pathlib.Path, offset: int = 0) -> bytes:
    """Return a regular file from `offset` on; raise `OSError` for another or too large a one."""
    opened, size = open_regular(file)
    with opened:
        if size > MAX_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(file))
        opened.seek(offset)
        return opened.read()


def read_tail(file: pathlib.Path, most: int) -> bytes:
    """Return the last bytes of a regular file; raise `OSError` for another one."""
    opened, size = open_regular(file)
    with opened:
        opened.seek(max(size - most, 0))
        return opened.read(most)
