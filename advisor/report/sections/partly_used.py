"""Measured arms whose compiler, engine or kernels did less than half of the work."""

from __future__ import annotations

from advisor.report.documents.document import RunDocument
from advisor.system.number_format import format_share

TITLE = "Used for less than half of the work, the rest ran as without it:"
#: Share of the work below which an arm is listed; tables and `explain` have the share of each.
HALF = 0.5


def partly_used(document: RunDocument) -> list[str]:
    """Return a line for each such arm, with its share of the work and what proves it."""
    lines = [
        f"  {entry.arm}: {format_share(entry.engaged_share)}"
        f"{f' ({entry.engagement})' if entry.engagement else ''}"
        for entry in document.workflows
        if entry.cells and entry.engaged_share is not None and entry.engaged_share < HALF
    ]
    return [TITLE, *lines] if lines else []
