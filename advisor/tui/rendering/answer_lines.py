"""The answer as labelled lines: what to use, how sure, what would change it, and what it costs."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from advisor.domain.answer import Answer, HeadlinePart
from advisor.domain.recommendation import DecisionWord
from advisor.report.sections.answer import headline, stop_notice, unfit_notice
from advisor.report.sections.cost import cost_line
from advisor.tui.answer import RunAnswer, option_of
from advisor.tui.rendering import text

#: Labels of the lines of the headline.
HEADLINE_LABELS: dict[HeadlinePart, str] = {
    "answer": "Answer",
    "certainty": "Sure?",
    "change": "Unless",
    "load": "Load",
    "weights": "Weights",
    "accuracy": "Error",
    "requests": "First",
    "batch-sizes": "Sizes",
}
#: Number of lines of every headline; further ones follow those about cost and trust.
FIRST_LINES = 3
LABEL_WIDTH = 8
#: Terms of the glossary that explain a line, by its label.
LINE_TERMS = {
    "Answer": ("workflow", "arm"),
    "Sure?": ("CLEAR, EITHER, OPEN", "certainty", "speed-up", "interval", "baseline"),
    "Unless": ("flip", "weights", "criterion"),
    "Cost": ("cold build", "memory", "break-even"),
    "Trust": ("trust", "noise floor"),
    "Sizes": ("speed-up",),
    "Load": ("goodput", "TTFT", "ITL"),
    "Weights": ("native, quantised",),
    "Error": ("exact, close", "accuracy"),
    "Note": ("unfit visit", "trust"),
    "Stopped": ("run",),
    "Mix": ("sweep",),
}
#: Labels of the lines of which short terminals show one row.
CUT_LABELS = {"Cost", "Trust"}
#: Colours of the decision's word.
DECISION_COLOURS: dict[DecisionWord, str] = {"CLEAR": "green", "EITHER": "cyan", "OPEN": "yellow"}
EXPLORED = "With these weights: "


def answer_lines(answer: RunAnswer, *, is_explored: bool = False) -> list[tuple[str, str]]:
    """Return pairs of label and line."""
    document, advice = answer.document, answer.recommendation
    if advice is None or document.advised is None:
        lines = [("Answer", headline(document))]
        if document.problem is not None:
            lines.append(("Next", document.problem.next_step))
        return [*lines, *_notes(answer)]
    lines = headline_lines(document)
    lines, further = lines[:FIRST_LINES], lines[FIRST_LINES:]
    if is_explored:
        lines[0] = ("Answer", EXPLORED + lines[0][1])
    reason = f": {advice.trust_reasons[0]}" if advice.trust_reasons else ""
    return [
        *lines,
        ("Cost", cost_line(document, document.advised)),
        ("Trust", f"{advice.trust} (A best, D lowest){reason}"),
        *further,
        *_notes(answer),
    ]


def headline_lines(answer: Answer) -> list[tuple[str, str]]:
    """Return the lines of a headline with their labels."""
    return [(HEADLINE_LABELS[line.part], line.text) for line in answer.headline]


def _notes(answer: RunAnswer) -> list[tuple[str, str]]:
    return [
        *(("Note", line) for line in unfit_notice(answer.document)),
        *(("Stopped", line) for line in stop_notice(answer.document)),
    ]


def describe_arm(answer: RunAnswer, arm: str) -> str:
    """Return the title of an arm, its options and its cost."""
    entry = answer.ranked_arm(arm)
    workflow = answer.workflow(entry)
    title = f": {text.printable(workflow.title, 80)}" if workflow is not None else ""
    options = f", options {text.printable(option_of(entry), 40)}" if entry.measured else ""
    cost = cost_line(answer.document, entry)
    return f"{text.printable(arm, 60)}{title}{options}. {cost}."


def render_line(label: str, line: str, *, is_short: bool) -> Table:
    """Return a label and its line, which wraps next to the label.

    In a short terminal the lines about cost and trust do not wrap.
    """
    grid = Table.grid(padding=(0, 1, 0, 0), expand=True)
    grid.add_column(width=LABEL_WIDTH - 1, no_wrap=True)
    grid.add_column(ratio=1)
    is_answer = label == "Answer"
    cut = is_short and label in CUT_LABELS
    shown = Text(text.printable(line, 600), "bold" if is_answer else "", no_wrap=cut)
    shown.overflow = "ellipsis" if cut else "fold"
    for word, colour in DECISION_COLOURS.items():
        if line.startswith(f"{word}:"):
            shown.stylize(f"bold {colour}", 0, len(word))
    grid.add_row(Text(label, "bold" if is_answer else "dim"), shown)
    return grid
