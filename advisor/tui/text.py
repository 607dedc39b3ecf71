"""Foreign text made safe to show, and figures in few signs.

What comes out is data for `Content` and `Text`, never markup.
"""

from __future__ import annotations

from advisor.system.terminal_text import spell

LONGEST = 4000
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
DASH = "\N{EN DASH}"
MINUTE, HOUR = 60, 3600


def plain(text: object, limit: int = LONGEST) -> str:
    """Return the text on one line, with control characters and marks of direction spelt out, cut to `limit`."""
    shown = "".join(
        spell(sign) for sign in str(text)[: limit + 1].replace("\n", " ").replace("\t", "  ")
    )
    return cut(shown, limit)


def cut(text: str, width: int) -> str:
    """Return the text, its end replaced by an ellipsis if it is longer than `width`."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + ELLIPSIS


def squeeze(text: str, width: int) -> str:
    """Return the text, its middle replaced by an ellipsis if it is longer than `width`: names differ at both ends."""
    if len(text) <= width:
        return text
    right = (width - 1) // 2
    return text[: width - 1 - right] + ELLIPSIS + text[len(text) - right :]


def duration(seconds: float) -> str:
    """Return minutes and seconds, with hours if there are any."""
    whole = int(seconds)
    if whole >= HOUR:
        return f"{whole // HOUR}:{whole % HOUR // MINUTE:02}:{whole % MINUTE:02}"
    return f"{whole // MINUTE:02}:{whole % MINUTE:02}"


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number with three significant digits, or a dash."""
    return (
        DASH
        if value is None
        else f"{value:.{digits}g}"
        if abs(value) < 10 ** (digits - 1)
        else f"{value:.0f}"
    )


def milliseconds(seconds: float | None) -> str:
    """Return seconds as milliseconds."""
    return DASH if seconds is None else figure(seconds * 1e3)


def times(ratio: float | None) -> str:
    """Return a speed-up."""
    return DASH if ratio is None else f"{ratio:.2f}x"
