"""Read the end of a worker's log as printable lines."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable

from advisor.system.regular_file import open_regular
from advisor.tui.rendering import text

#: Limits of one read.
MAX_BYTES, MAX_LINES = 65536, 50
#: The line of source that Python prints below a warning.
ECHOED_WARNING = re.compile(r"\s+(warnings\.)?warn(_once|ing)?\(")
ESCAPE_SEQUENCE = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])")


def clean_line(line: str) -> str:
    """Remove escape sequences and text that a carriage return has overwritten from a log line."""
    return text.printable(ESCAPE_SEQUENCE.sub("", line.rstrip("\r").rpartition("\r")[2]))


def fold(lines: Iterable[str]) -> list[str]:
    """Return the lines without empty ones, echoed warning calls, and repetitions of a line."""
    folded: list[tuple[str, int]] = []
    for line in lines:
        if not line.strip() or ECHOED_WARNING.match(line):
            continue
        if folded and folded[-1][0] == line:
            folded[-1] = (line, folded[-1][1] + 1)
        else:
            folded.append((line, 1))
    return [line if count == 1 else f"{line}  ({count} times)" for line, count in folded]


class LogTail:
    """Reads what was appended to log files since the previous read of each."""

    def __init__(self) -> None:
        self._offsets: dict[pathlib.Path, int] = {}

    def read(self, file: pathlib.Path, name: str) -> list[str]:
        """Return the last `MAX_LINES` new lines, prefixed with `name`; the last may be partial."""
        try:
            log, size = open_regular(file)
            with log:
                offset = self._offsets.get(file, 0)
                if size <= offset:
                    return []
                log.seek(max(offset, size - MAX_BYTES))
                content = log.read(MAX_BYTES)
        except OSError:
            return []
        self._offsets[file] = size
        lines = [clean_line(line) for line in content.decode("utf-8", "replace").split("\n")]
        return [f"{name} | {line}" for line in fold(lines)][-MAX_LINES:]
