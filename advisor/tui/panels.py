"""Escape untrusted text and the lines of logs, and format figures for the screens."""

from __future__ import annotations

import re
import textwrap

from rich.text import Text

from advisor.domain.run_state import RunState
from advisor.domain.text import ELLIPSIS, NO_BREAK_SPACE, escape_char, keep_units, truncate_middle
from advisor.store.files import read_tail
from advisor.store.runs import Run

MAX_CHARACTERS = 4000


def printable(text: object, limit: int = MAX_CHARACTERS) -> str:
    """Return one line of at most `limit` characters; control and bidirectional ones are escaped."""
    line = str(text)[: limit + 1].replace("\n", " ").replace("\t", "  ")
    return truncate("".join(map(escape_char, line)), limit)


def truncate(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + ELLIPSIS


def model_name(name: str, width: int = 40) -> str:
    """Return the name of a model in at most `width` characters.

    It loses the folders of a path, and its owner where it is too long.
    """
    shown = printable(name)
    if shown.startswith("/") or len(shown) > width:
        shown = shown.rpartition("/")[2]
    return truncate_middle(shown, width)


def wrap(line: str, width: int, hang: int = 2) -> list[str]:
    """Return lines of at most `width` characters with each unit on the line of its number.

    Further lines are indented by `hang` more than the first one.
    """
    text = keep_units(printable(line))
    indent = " " * (len(text) - len(text.lstrip()) + hang)
    wrapped = textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)
    return [each.replace(NO_BREAK_SPACE, " ") for each in wrapped]


def styled(content: str, style: str) -> Text:
    """Return a text with a style that does not apply to what is appended to it."""
    return Text.assemble((content, style))


def format_clock(seconds: float) -> str:
    """Return `MM:SS`, or `H:MM:SS` for an hour or more."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


#: Bytes of the end of a log that are shown.
MAX_LOG_BYTES = 65_536
ESCAPE_SEQUENCE = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])")


def read_log(run: Run, state: RunState, arm: str) -> list[str]:
    """Return the last lines of the latest process of an arm; none of a log that is not there."""
    process = max(len(state.processes.get(arm, ())) - 1, 0)
    try:
        content = read_tail(run.worker_log_path(arm, process), MAX_LOG_BYTES)
    except OSError:
        return []
    lines = content.decode("utf-8", "replace").split("\n")
    # A carriage return overwrites the text before it.
    visible = (ESCAPE_SEQUENCE.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in lines)
    return [line for line in map(printable, visible) if line.strip()]
