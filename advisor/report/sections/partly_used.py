"""Measured arms whose compiler, engine or kernels did less than half of the work."""

from __future__ import annotations

from advisor.domain.answer import Answer
from advisor.system.number_format import format_share

TITLE = "Used for less than half of the work, the rest ran as without it:"
#: Share of the work below which an arm is listed; tables and `explain` have the share of each.
HALF = 0.5


def partly_used(answer: Answer) -> list[str]:
    """Return a line for each such arm, with its share of the work and what proves it."""
    lines = [
        f"  {arm.arm}: {format_share(measured.engaged_share)}"
        f"{f' ({measured.engagement})' if measured.engagement else ''}"
        for arm, measured in answer.ranked
        if measured is not None and measured.cells and measured.engaged_share < HALF
    ]
    return [TITLE, *lines] if lines else []
