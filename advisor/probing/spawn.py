"""Start the process of one worker."""

from __future__ import annotations

import contextlib
import errno
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from advisor.errors import NotWritableError
from probes import protocol
from probes.wire.outcome import Failure

#: A full disk, an exceeded quota and a read-only file system would stop the next worker as well.
UNWRITABLE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def spawn(
    request: protocol.Request,
    directory: pathlib.Path,
    command: Sequence[str],
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes] | Failure:
    """Start `command` in a new session, with its request and its log in `directory`.

    Return the failure if the command does not start. Raise `NotWritableError` if `directory` cannot
    be written.
    """
    with require_writable(directory):
        directory.mkdir(parents=True)
        (directory / protocol.REQUEST).write_bytes(msgspec.json.encode(request))
        log = (directory / protocol.LOG).open("wb")
    with log:
        try:
            return subprocess.Popen(  # noqa: S603 - an argument list, no shell
                [*command, str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**environment, protocol.MARK_VARIABLE: str(directory)},
                start_new_session=True,
            )
        except OSError as problem:
            reason = f"{command[0]} cannot be started: {problem.strerror}"
            fix = (
                "start a new run, which detects the interpreters again, "
                "or create the environment again with p3-advisor env create"
            )
            return Failure("crashed", "start", reason, fix)


@contextlib.contextmanager
def require_writable(directory: pathlib.Path) -> Iterator[None]:
    """Raise `NotWritableError` if the block cannot write to the disk of `directory`."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in UNWRITABLE_ERRNOS:
            raise
        raise NotWritableError(
            f"{directory} cannot be written: {problem.strerror}",
            "make room on its disk, and resume the run",
        ) from problem
