"""The look of an arm, the same in every picture of a page: colour, shape and name."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.plan import BASELINE
from advisor.report.charts.names import short_names
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
