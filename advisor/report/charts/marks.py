"""The look of an arm, the same in every picture of a page: colour, shape and name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from advisor.domain.plan import BASELINE
from advisor.report.charts.names import short_names
from advisor.report.charts.svg import CORNERS
from advisor.report.document import RunDocument, WorkflowEntry

#: Colours of the style sheet.
COLOURS = 8
#: Further classes of the style sheet.
EMPHASIS = {"advised": " advised", "baseline": " reference", "other": ""}


class Mark(msgspec.Struct, frozen=True):
    """How one arm is drawn."""

    name: str
    colour: int
    shape: int
    emphasis: Literal["advised", "baseline", "other"] = "other"

    @property
    def is_advised(self) -> bool:
        return self.emphasis == "advised"

    @property
    def css_class(self) -> str:
        return f"series s{self.colour}{EMPHASIS[self.emphasis]}"


def marks_of(document: RunDocument, ranked: Sequence[WorkflowEntry]) -> dict[str, Mark]:
    """Return the mark of each ranked arm; 32 arms have different ones."""
    advised = document.recommendation.arm if document.recommendation else None
    names = short_names([entry.arm for entry in ranked])
    return {
        arm: Mark(
            name,
            *place(number),
            "advised" if arm == advised else "baseline" if arm == BASELINE else "other",
        )
        for number, (arm, name) in enumerate(names.items())
    }


def place(number: int) -> tuple[int, int]:
    """Return colour and shape of the series with this number."""
    return number % COLOURS, (number + number // COLOURS) % len(CORNERS)
