"""Begin one worker's process: what the disk does not take is the user's to put right, what does not run is an outcome."""

from __future__ import annotations

import contextlib
import errno
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from advisor.domain.outcome import Crashed
from advisor.errors import NotWritableError
from probes import protocol

#: The disk is full, the user's share of it is, or nobody may write to it: the next worker would
#: fare no better.
UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def spawn(
    request: protocol.Request,
    directory: pathlib.Path,
    command: Sequence[str],
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes] | Crashed:
    """Start `command` in a session of its own, its request and its log in `directory`; return how it ended if it does not start."""
    with writing(directory):
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
                env={**environment, protocol.MARK: str(directory)},
                start_new_session=True,
            )
        except OSError as problem:
            reason = f"{command[0]} cannot be started: {problem.strerror}"
            fix = "start a new run, which looks for what is there now; p3-advisor env create makes an environment anew"
            return Crashed(phase="start", signal=None, reason=reason, fix=fix)


@contextlib.contextmanager
def writing(place: pathlib.Path) -> Iterator[None]:
    """Raise `NotWritableError` where the block finds that `place` takes nothing more."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in UNWRITABLE:
            raise
        raise NotWritableError(
            f"{place} cannot be written: {problem.strerror}",
            "make room on its disk, and resume the run",
        ) from problem
