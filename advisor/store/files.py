"""Write files of the program completely or not at all, and read files that may be anything.

Readers see either the old or the new content of a file. In directories that foreign code can
write, a file may be a link or a FIFO.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pathlib
import stat
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager

from advisor.domain.errors import NotWritableError, reported_as

HOME_VARIABLE = "P3_ADVISOR_HOME"
#: Far more than the events of any run.
MAX_FILE_BYTES = 1 << 30


def named_home(environment: Mapping[str, str]) -> pathlib.Path | None:
    home = environment.get(HOME_VARIABLE)
    return pathlib.Path(home).absolute() if home else None


def write_atomically(file: pathlib.Path, content: bytes) -> None:
    """Replace the content of `file`; make its directory if it is missing.

    Raise `OSError` and leave `file` unchanged if it cannot be written.
    """
    # Others may write the same file.
    partial = file.with_name(f".{file.name}.{threading.get_native_id()}.part")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial.write_bytes(content)
        partial.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def report_unwritable(
    path: pathlib.Path, next_step: str = "make it writable"
) -> AbstractContextManager[None]:
    """Raise `NotWritableError` for an `OSError` of the block."""
    return reported_as(NotWritableError, f"{path} cannot be written", next_step)


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
    """Read a regular file from `offset` to its end; raise `OSError` if it is not, or too large."""
    opened, size = open_regular(file)
    with opened:
        if size > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(file))
        opened.seek(offset)
        return opened.read()


def read_tail(file: pathlib.Path, most: int) -> bytes:
    """Return the last bytes of a regular file; raise `OSError` for another one."""
    opened, size = open_regular(file)
    with opened:
        opened.seek(max(size - most, 0))
        return opened.read(most)
