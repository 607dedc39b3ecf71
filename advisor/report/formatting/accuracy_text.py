"""Write the accuracy of an arm: one figure for tables, one line for details."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from advisor.domain.accuracy import AccuracyClass, worst_check
from advisor.domain.check_events import Checked, worst_error
from advisor.system.number_format import MISSING, format_number, format_share

#: What follows an error in tables, by class; nothing follows that of exact outputs.
MARKS: dict[AccuracyClass, str] = {"exact": "", "close": "~", "unchecked": "?", "incorrect": "!"}
LEGEND = (
    "error: root mean square, relative to a reference in higher precision; text: divergence in "
    "nats a token; ~ not exact; ? not checkable"
)


def accuracy_cell(checks: Sequence[Checked]) -> str:
    """Return the largest error with the mark of the worst class, such as `2.1e-03~`."""
    worst, error = worst_check(checks), worst_error(checks)
    if worst is None:
        return MISSING
    mark = MARKS[worst.accuracy_class]
    if error is None:
        return mark or MISSING
    return f"{format_error(error)}{mark}"


def format_error(error: float) -> str:
    """Return a relative error with two significant digits, such as `2.1e-03`."""
    return f"{error:.1e}" if error else "0"


def accuracy_line(checked: Checked) -> str:
    """Return all figures of one batch size, such as `close, relative error 2.1e-03, ...`."""
    found = checked.accuracy
    if found is None:
        return f"{checked.accuracy_class}, against {checked.reference}"
    kind = f"{checked.accuracy_class} ({found.fault})" if found.fault else checked.accuracy_class
    figures: list[tuple[str, Any, Callable[[Any], str]]] = [
        ("relative error {}", found.relative_error, format_error),
        ("divergence {} nats a token", found.kl_mean, format_error),
        ("{}x eager's", found.ratio_to_eager, lambda ratio: format_number(ratio, digits=2)),
        ("cosine {}", found.cosine, lambda cosine: f"{cosine:.8f}"),
        ("worst element {}", found.worst_element, format_error),
        ("top-1 {}", found.top1, format_percent),
        ("equal tokens {}", found.equal_tokens, format_percent),
        ("rounding alone {}", found.envelope, format_error),
        ("one input called {} times", found.repeats or None, str),
    ]
    parts = [text.format(write(value)) for text, value, write in figures if value is not None]
    return f"{', '.join([kind, *parts])}, against {checked.reference}"


def format_percent(share: float) -> str:
    """Return a share as a percentage with one decimal place."""
    return format_share(share, decimals=1)
