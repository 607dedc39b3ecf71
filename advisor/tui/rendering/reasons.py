"""Render the explanation of a recommendation for the pane next to the ranking."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from advisor.report.document import RunDocument
from advisor.tui.rendering import text


def render_reasons(document: RunDocument) -> Text:
    """Return the reasons, the limits of the trust grade, and the next steps."""
    advice = document.recommendation
    if advice is None:
        return Text(
            text.printable(document.problem.next_step, 300) if document.problem is not None else ""
        )
    return (
        _section("Why\n", "+", advice.reasons)
        + (_section("\nWhy trust is not A\n", "-", advice.trust_reasons))
        + (_section("\nNext\n", ">", advice.next_steps))
    )


def _section(heading: str, bullet: str, items: Sequence[str]) -> Text:
    lines = "".join(f"{bullet} {text.printable(item, 300)}\n" for item in items)
    return Text(heading, "bold") + Text(lines) if items else Text()
