"""The look of an arm, the same in every picture of a page: colour, shape and name."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.plan import BASELINE
from advisor.report.charts.svg import CORNERS

#: Colours of the style sheet.
COLOURS = 8


class Mark(msgspec.Struct, frozen=True):
    """How one arm is drawn."""

    name: str
    colour: int
    shape: int
    is_advised: bool = False
    is_baseline: bool = False

    @property
    def css_class(self) -> str:
        advised = " advised" if self.is_advised else ""
        reference = " reference" if self.is_baseline else ""
        return f"series s{self.colour}{advised}{reference}"


def marks_of(answer: Answer, ranked: Sequence[RankedArm]) -> dict[str, Mark]:
    """Return the mark of each ranked arm; 32 arms have different ones."""
    advised = answer.recommendation.arm if answer.recommendation else None
    names = short_names([entry.arm for entry in ranked])
    return {
        arm: Mark(
            name,
            *place(number),
            is_advised=arm == advised,
            is_baseline=arm == BASELINE,
        )
        for number, (arm, name) in enumerate(names.items())
    }


def place(number: int) -> tuple[int, int]:
    """Return colour and shape of the series with this number."""
    return number % COLOURS, (number + number // COLOURS) % len(CORNERS)


#: Characters of a name that fit into a column of names.
LONGEST_NAME = 40
#: Where a name may be cut.
WORD_ENDS = re.compile(r"(?<=[-/#+])")


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return each name, or the end of a long one after an ellipsis.

    Arms of one workflow differ at the end. Names whose ends are equal stay whole.
    """
    ends = {name: _end(name) for name in dict.fromkeys(names)}
    shown = list(ends.values())
    return {name: end if shown.count(end) == 1 else name for name, end in ends.items()}


def _end(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    words = WORD_ENDS.split(name)
    for first in range(1, len(words)):
        end = "".join(words[first:])
        if len(end) < LONGEST_NAME:
            return f"…{end}"
    return f"…{name[-LONGEST_NAME + 1 :]}"


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return a height for each wanted one, `gap` apart in the same order, near the wanted ones.

    They lie between `low` and `high` if there is room for all.
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    pushed_down = _push([wanted[index] for index in order], gap)
    pushed_up = [-each for each in reversed(_push([-wanted[index] for index in order[::-1]], gap))]
    placed = [(down + up) / 2 for down, up in zip(pushed_down, pushed_up, strict=True)]
    from_below = [-each for each in reversed(_push([-each for each in placed[::-1]], gap, -high))]
    heights = _push(from_below, gap, low)
    return [height for _, height in sorted(zip(order, heights, strict=True))]


def _push(sorted_heights: Sequence[float], gap: float, least: float | None = None) -> list[float]:
    """Return the heights, each moved to at least `gap` above the one before it."""
    moved: list[float] = []
    for height in sorted_heights:
        bound = moved[-1] + gap if moved else least
        moved.append(height if bound is None else max(height, bound))
    return moved
