"""Why an answer is what it is, for the pane beside the ranking."""

from __future__ import annotations

from rich.text import Text

from advisor.report.document import RunDocument
from advisor.tui import text


def reasons_of(document: RunDocument) -> Text:
    """Return the reasons, what keeps the trust from being higher, and what can be done."""
    advice = document.recommendation
    if advice is None:
        return Text(
            text.plain(document.problem.next_step, 300) if document.problem is not None else ""
        )
    words = Text("Why\n", "bold") + Text(
        "".join(f"+ {text.plain(reason, 300)}\n" for reason in advice.reasons)
    )
    words += Text("\nWhat keeps the trust from A\n" if advice.trust_reasons else "", "bold")
    words += Text("".join(f"- {text.plain(reason, 300)}\n" for reason in advice.trust_reasons))
    words += Text("\nNext\n" if advice.next_steps else "", "bold")
    return words + Text("".join(f"> {text.plain(step, 300)}\n" for step in advice.next_steps))
