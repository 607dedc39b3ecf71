"""Escape untrusted text and format figures for the screens.

The results are data for Textual's `Content` and Rich's `Text`, not markup.
"""

from __future__ import annotations

from rich.text import Text

from advisor.system import number_format
from advisor.system.number_format import MISSING
from advisor.system.terminal_text import escape_char

MAX_CHARACTERS = 4000
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
#: Significant digits of a figure.
DIGITS = 3


def printable(text: object, limit: int = MAX_CHARACTERS) -> str:
    """Return the text on one line of at most `limit` characters.

    Control characters and bidirectional marks are escaped.
    """
    line = str(text)[: limit + 1].replace("\n", " ").replace("\t", "  ")
    return truncate("".join(map(escape_char, line)), limit)


def truncate(text: str, width: int) -> str:
    """Replace the end of a text longer than `width` by an ellipsis."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + ELLIPSIS


def truncate_middle(text: str, width: int) -> str:
    """Replace the middle of a text longer than `width` by an ellipsis.

    Names of arms share neither their start nor their end, so both ends stay.
    """
    if len(text) <= width:
        return text
    right = (width - 1) // 2
    return text[: width - 1 - right] + ELLIPSIS + text[len(text) - right :]


def styled(content: str, style: str) -> Text:
    """Return a text with a style that does not apply to what is appended to it."""
    return Text.assemble((content, style))


def format_duration(seconds: float) -> str:
    """Return `MM:SS`, or `H:MM:SS` from one hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def format_number(value: float | None) -> str:
    """Format a number with three significant digits, for the narrow columns of the screens."""
    return number_format.format_number(value, digits=DIGITS, keeps_zeros=True)


def format_milliseconds(seconds: float | None) -> str:
    """Format a duration in milliseconds with three significant digits, without the unit."""
    return format_number(None if seconds is None else seconds * 1e3)


def format_ratio(ratio: float | None) -> str:
    """Format a speed-up, such as `1.50x`."""
    return MISSING if ratio is None else f"{ratio:.2f}x"
