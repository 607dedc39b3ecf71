"""Format numbers with units and lists of names, and escape control characters, in all outputs.

What is escaped comes from models, stacks and other machines.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.domain.arm_figures import UNITS
from advisor.domain.constraints import Constraint

if TYPE_CHECKING:
    from advisor.domain.measurement import CallSeconds, Interval

#: Stands for a number that is not known.
MISSING = "-"
NO_INTERVAL = "(no interval)"
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
UNIT_AFTER_NUMBER = re.compile(r"(?<=\d) (?=(?:%|s|ms|MiB|GiB)(?!\w))|(?<=\bTrust) (?=[A-D]\b)")
CLAUSE_END = re.compile(r"[.;,](?= )|(?<=.{60})(?::(?= )|(?= \())")
SIGNIFICANT_DIGITS = 4
#: Most decimal places of a weight in percent.
WEIGHT_DECIMALS = 2
MEBIBYTE, GIBIBYTE = 2**20, 2**30
#: A range whose bounds differ by a larger factor says nothing.
WIDEST_RANGE = 100.0
#: Error of a share in percent by rounding alone.
ROUNDING = 1e-6


def keep_units(text: str) -> str:
    """Return the text with each unit on the line of its number, and the letter of the trust."""
    return UNIT_AFTER_NUMBER.sub(NO_BREAK_SPACE, text)


def shorten_text(text: str, most: int = 120) -> str:
    """Return the whole sentences and clauses of the first line within `most` characters.

    If the first clause is longer, return its first words and `...`.
    """
    line = " ".join(text.strip().partition("\n")[0].split())
    if len(line) <= most:
        return line.rstrip(".")
    places = (found.start() for found in CLAUSE_END.finditer(line[: most + 1]))
    clauses = [line[:end] for end in places if line.count("(", 0, end) == line.count(")", 0, end)]
    return clauses[-1] if clauses else textwrap.shorten(line, most, placeholder=" ...")


def truncate_middle(name: str, width: int) -> str:
    """Shorten the name in the middle: arms and models differ at the start or the end of theirs."""
    if len(name) <= width:
        return name
    right = (width - 1) // 2
    return name[: width - 1 - right] + ELLIPSIS + name[len(name) - right :]


def format_number(
    value: float | None, decimals: int | None = None, digits: int = SIGNIFICANT_DIGITS
) -> str:
    """Format a number with thousands separators and without an exponent.

    It has `decimals` decimal places, or `digits` significant digits if `decimals` is None; zeros
    at its end are then removed.
    """
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return f"{value:g}"
    if decimals is not None:
        return f"{value:,.{decimals}f}"
    exponent = math.floor(math.log10(abs(value))) if value else 0
    places = max(digits - 1 - exponent, 0)
    text = f"{value:,.{places}f}"
    return text if not places else text.rstrip("0").rstrip(".")


def format_interval(interval: Interval | None, *, unit: str = "x", decimals: int | None = 2) -> str:
    """Format a value with the bounds of its interval, such as `1.46x (1.37 to 1.56)`."""
    if interval is None:
        return MISSING
    value = f"{_format_factor(interval.value, decimals)}{unit}"
    if interval.low is None or interval.high is None:
        return f"{value} {NO_INTERVAL}"
    low, high = (_format_factor(bound, decimals) for bound in (interval.low, interval.high))
    return f"{value} ({low} to {high})"


def _format_factor(value: float, decimals: int | None) -> str:
    """Format a value with decimal places, and with a significant digit if it would be zero."""
    is_rounded_away = decimals is not None and value != 0 and round(value, decimals) == 0
    return format_number(value, digits=1) if is_rounded_away else format_number(value, decimals)


def format_apart(one: float, other: float) -> tuple[str, str]:
    """Format two values with two decimal places, or as many more as tell them apart."""
    pairs = [(f"{one:.{places}f}", f"{other:.{places}f}") for places in range(2, 10)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])


def format_bounded(value: int, low: int, high: int) -> str:
    """Format a number of things with its bounds, such as `3 (2 to 4)`, or `3` where all agree."""
    return str(value) if low == value == high else f"{value} ({low} to {high})"


def write_count(number: str | int, noun: str) -> str:
    return f"{number} {noun}{'' if str(number) == '1' else 's'}"


def format_speedup(speedup: Interval | None) -> str:
    """Format the value of a speed-up without its interval, such as `1.46x`."""
    return MISSING if speedup is None else f"{_format_factor(speedup.value, 2)}x"


def is_unknown(speedup: Interval) -> bool:
    """Return whether the range is wide, and does not even say which of both is faster."""
    low, high = speedup.low or 0.0, speedup.high
    return high is None or low <= 1.0 <= high > WIDEST_RANGE * low


def write_speedup(
    speedup: Interval,
    *,
    unfit: bool,
    interval: bool = False,
    in_words: bool = False,
    decimals: int = 2,
) -> str:
    """Write a speed-up; its range where the value misleads: it is wide, or the machine was unfit.

    With `interval` a value has its interval, and a table shows a wide one so. A table has no figure
    for a range that says nothing; `in_words` is for sentences.
    """
    is_range = speedup.is_range(unfit=unfit)
    if is_range and in_words:
        low, high = (format_number(each, digits=2) for each in (speedup.low, speedup.high))
        return f"between {low}x and {high}x"
    if is_range and (unfit or not interval):
        low, high = (format_number(each, decimals=2) for each in (speedup.low, speedup.high))
        return MISSING if is_unknown(speedup) else f"{low} to {high}"
    if interval and (in_words or not unfit):
        return format_interval(speedup, decimals=decimals)
    return format_speedup(speedup)


def describe_spread(constraint: Constraint, spread: tuple[float, float]) -> str:
    """Return the bounds of a constraint's figure, in its unit."""
    unit = constraint.shown_unit(spread[1])
    size, name = (UNITS[unit], f" {unit}") if unit else (1, "x")
    between = " to ".join(format_number(end / size, digits=3) for end in spread)
    return f"{constraint.quantity} is {between}{name}"


#: Longest duration that is written in seconds.
SHORT_SECONDS = 120


def format_seconds(seconds: float | None) -> str:
    """Format a duration in seconds with one decimal place, without the unit."""
    return format_number(seconds, decimals=1)


def write_duration(seconds: float) -> str:
    """Write a duration as options take it, rounded up to tens of seconds or to minutes."""
    tens = math.ceil(seconds / 10) * 10
    return f"{tens}s" if tens <= SHORT_SECONDS else f"{math.ceil(seconds / 60)}min"


def format_milliseconds(seconds: float | None, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Format a duration in milliseconds with significant digits, without the unit."""
    return MISSING if seconds is None else format_number(seconds * 1e3, digits=digits)


def format_call_milliseconds(seconds: CallSeconds, *, unfit: bool = False) -> str:
    """Format the median of calls with its interval in milliseconds, such as `12.1 (12 to 12.3)`.

    The times of a machine that was not fit to measure on have only the interval.
    """
    median = format_milliseconds(seconds.median)
    if seconds.low is None or seconds.high is None:
        return MISSING if unfit else f"{median} {NO_INTERVAL}"
    bounds = f"{format_milliseconds(seconds.low)} to {format_milliseconds(seconds.high)}"
    return bounds if unfit else f"{median} ({bounds})"


def format_mebibytes(size_bytes: float | None, digits: int | None = None) -> str:
    """Format a size in whole MiB, or in MiB with `digits` significant digits, without the unit."""
    if size_bytes is None:
        return MISSING
    size_mib = size_bytes / MEBIBYTE
    return f"{round(size_mib):,}" if digits is None else format_number(size_mib, digits=digits)


def format_share(share: float | None, decimals: int | None = 0, *, signed: bool = False) -> str:
    """Format a share as a percentage, such as `57 %`; with `signed` such as `+57 %`."""
    if share is None:
        return MISSING
    sign = "+" if signed and share >= 0 else ""
    return f"{sign}{format_number(share * 100, decimals)} %"


def format_weights(low: float, high: float, now: float) -> str | None:
    """Format the weights in percent at which an arm is advised: `less than 37 %`, `10 to 37 %`.

    They are on one side of the present one. Bounds are rounded inwards, so that every weight that
    is named is one of them, with the fewest decimals that tell them from the present weight. Bounds
    next to the present weight are `any less` or `any more`. None for a range that is too narrow.
    """
    is_less = high <= now
    near, far, end = (high, low, 0.0) if is_less else (low, high, 100.0)
    side = "less" if is_less else "more"
    first, last = now, far
    for decimals in range(WEIGHT_DECIMALS + 1):
        scale = 10**decimals
        least = math.ceil(low * scale - ROUNDING) / scale
        most = math.floor(high * scale + ROUNDING) / scale
        first, last = (most, least) if is_less else (least, most)
        is_bound = round(first, decimals) not in {round(now, decimals), now, 0.0, 100.0}
        if is_bound and far == end:
            return f"{side} than {first:.{decimals}f} %"
        if is_bound and least < most:
            return f"{min(first, last):.{decimals}f} to {max(first, last):.{decimals}f} %"
    is_next = abs(near - now) < 1
    if far == end:
        return f"any {side}" if is_next else f"{end:g} %"
    is_wide = abs(last - now) > 10**-WEIGHT_DECIMALS
    return (
        f"any {side}, {'down' if is_less else 'up'} to {last:g} %" if is_next and is_wide else None
    )


def format_fact(value: float | str | bool | None) -> str:  # noqa: FBT001 - facts have any type
    """Format the value of a fact of the rubric: a number, a text, or yes or no."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_number(value) if isinstance(value, float) else str(value)


def join_names(names: Sequence[str], conjunction: str = "and") -> str:
    """Return the names as a list, with semicolons where a name has a comma."""
    *others, last = names
    if not others:
        return last
    if len(others) > 1 and any("," in name for name in names):
        return f"{'; '.join(others)}; {conjunction} {last}"
    return f"{', '.join(others)} {conjunction} {last}"


def name_some(names: Sequence[str], most: int) -> str:
    """Return the first names as a list, with the number of those that are left out."""
    left = len(names) - most
    return join_names([*names[:most], *([write_count(left, "other")] if left > 0 else [])])


#: Unicode categories that move the cursor, change the direction of text or are invisible.
HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
#: Everything except printable ASCII, tabs and line feeds.
SUSPICIOUS = re.compile(r"[^\n\t\x20-\x7e]")


def escape_char(char: str) -> str:
    r"""Return the character, or its JSON escape such as `\u001b` if it is a hidden one."""
    if unicodedata.category(char) not in HIDDEN_CATEGORIES:
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2)
    )


def escape_control_chars(text: str) -> str:
    """Return the text with every hidden character escaped; JSON text stays the same JSON."""
    return SUSPICIOUS.sub(lambda found: escape_char(found.group()), text)
