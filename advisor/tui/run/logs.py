"""The end of what a worker prints, as lines that can be shown."""

from __future__ import annotations

import pathlib
import re

from advisor.tui import text

#: Bytes read at a time, and lines shown of them.
MOST_BYTES, MOST_LINES = 65536, 50
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])")


def clean(line: str) -> str:
    """Return a line of a log without colours; what is overwritten by a carriage return is left out."""
    return text.plain(ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2]))


class LogTail:
    """Reads what is new in one log after the other."""

    def __init__(self) -> None:
        self._places: dict[pathlib.Path, int] = {}

    def read(self, file: pathlib.Path, name: str) -> list[str]:
        """Return the new lines, whole or not, at most the last `MOST_LINES`."""
        try:
            size = file.stat().st_size
            place = self._places.get(file, 0)
            if size <= place:
                return []
            with file.open("rb") as log:
                log.seek(max(place, size - MOST_BYTES))
                raw = log.read(MOST_BYTES)
        except OSError:
            return []
        self._places[file] = size
        lines = [clean(line) for line in raw.decode("utf-8", "replace").split("\n")]
        return [f"{name} | {line}" for line in lines if line.strip()][-MOST_LINES:]
