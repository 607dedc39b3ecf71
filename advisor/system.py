"""The files of the program, and the import paths of the Python processes that it starts.

Readers see either the old or the new content of a file. In directories that the code of others can
write, a file may be anything.

`python -c` and `python -m` import from the current directory first, and so does an empty entry in
`PYTHONPATH`. A cloned model repository may contain a `json.py` or a `torch` directory.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pathlib
import stat
import sys
from collections.abc import Iterator, Mapping

from advisor.domain.errors import NotWritableError

HOME_VARIABLE = "P3_ADVISOR_HOME"
#: What a coding agent reads first.
SKILL = pathlib.Path(__file__).with_name("SKILL.md")
#: Far more than the events of any run.
MAX_BYTES = 1 << 30


def named_home(environment: Mapping[str, str]) -> pathlib.Path | None:
    home = environment.get(HOME_VARIABLE)
    return pathlib.Path(home).absolute() if home else None


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


PYTHON_PATH = "PYTHONPATH"
#: Makes Python 3.11 and later leave the current directory and the script's out of the path.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
#: First line of a program for `python -c`; before Python 3.11 nothing else removes the directory.
WITHOUT_CURRENT_DIRECTORY = "import sys; sys.path = [*filter(None, sys.path)]\n"
_START = f"""{WITHOUT_CURRENT_DIRECTORY}
sys.path.insert(0, sys.argv.pop(1))
from advisor.cli.command_line import main
main()
"""
#: Starts this program in a process of its own, with the directory of this installation first in the
#: path; its environment is `without_current_directory`.
ADVISOR_COMMAND = (sys.executable, "-c", _START, str(pathlib.Path(__file__).parents[1]))


def without_current_directory(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with `SAFE_PATH`, and with a `PYTHONPATH` of absolute paths.

    An empty entry of `PYTHONPATH`, which a leading or trailing colon makes, is dropped. A directory
    that the user named stays.
    """
    entries = [entry for entry in environment.get(PYTHON_PATH, "").split(os.pathsep) if entry]
    absolute = os.pathsep.join(str(pathlib.Path(entry).absolute()) for entry in entries)
    others = {name: value for name, value in environment.items() if name != PYTHON_PATH}
    return {**others, **({PYTHON_PATH: absolute} if absolute else {}), **SAFE_PATH}
