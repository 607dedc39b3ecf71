"""The line that the shell shows after the terminal program has ended."""

from __future__ import annotations

from advisor.domain.run import resume_command
from advisor.report.sections.answer import headline
from advisor.report.sweeps import sweep_text
from advisor.tui.answer import RunAnswer
from advisor.tui.rendering.text import printable
from advisor.tui.run.sweep_view import SweepView

MAX_ANSWER = 300


def describe_left_run(shown_id: str) -> str:
    """Return how to come back to a run or sweep that continues without the program."""
    return f"The run goes on. p3-advisor ask --open {shown_id} shows it."


def describe_stopped_run(shown_id: str) -> str:
    """Return how to continue a run or sweep that was stopped."""
    return f"The run was stopped. {resume_command(shown_id)}"


def describe_answer(answer: RunAnswer | SweepView | None) -> str:
    """Return the last answer, and the command that shows it if it is stored here."""
    if answer is None:
        return ""
    if isinstance(answer, SweepView):
        swept = answer.document
        line = printable(sweep_text.answer(swept)[0], MAX_ANSWER)
        return f"{line} p3-advisor show {swept.sweep_id}"
    document = answer.document
    shown = f" p3-advisor show {document.run_id}" if answer.run is not None else ""
    return f"{printable(headline(document), MAX_ANSWER)}{shown}"
