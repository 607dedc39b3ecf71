"""The answer as labelled lines: what to use, how sure, what would change it, and what it costs."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from advisor.domain.decision import DecisionWord
from advisor.domain.plan import BASELINE
from advisor.domain.workflow import Workflow
from advisor.report import text_report
from advisor.report.documents.document import WorkflowEntry
from advisor.system.number_format import format_mebibytes, format_number, format_seconds
from advisor.tui.answer import RunAnswer
from advisor.tui.rendering import text

#: Labels of the lines of the headline.
HEADLINE_LABELS = ("Answer", "Sure?", "Unless")
#: Place in the headline of the line about batch sizes, which comes last: a pane repeats it.
SIZES_PLACE = 3
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
    "Note": ("unfit visit", "trust"),
    "Stopped": ("run",),
}
#: Largest number of lines of an answer.
MOST_LINES = 8
#: Labels of the lines of which short terminals show one row.
CUT_LABELS = {"Cost", "Trust"}
#: Colours of the decision's word.
DECISION_COLOURS: dict[DecisionWord, str] = {"CLEAR": "green", "EITHER": "cyan", "OPEN": "yellow"}
EXPLORED = "With these weights: "
#: Follows an answer that there is none, where figures are shown all the same.
NOT_FIT = "The figures below were measured on a machine that was not fit: do not use them."
BASELINE_COST = "no build and no change of the code"


def answer_lines(answer: RunAnswer, *, is_explored: bool = False) -> list[tuple[str, str]]:
    """Return pairs of label and line."""
    document, advice = answer.document, answer.recommendation
    if advice is None:
        lines = [("Answer", text_report.headline(document))]
        if document.problem is not None:
            lines.append(("Next", document.problem.next_step))
        if lines[0][1].startswith(text_report.NO_ANSWER):
            lines.append(("Note", NOT_FIT))
        return [*lines, *_stopped(answer)]
    lines = list(zip(HEADLINE_LABELS, advice.headline[:SIZES_PLACE], strict=False))
    if not advice.headline:
        lines = [
            ("Answer", text_report.headline(document)),
            *(("Sure?", line) for line in text_report.confidence(document)),
        ]
    if is_explored:
        lines[0] = ("Answer", EXPLORED + lines[0][1])
    reason = f": {advice.trust_reasons[0]}" if advice.trust_reasons else ""
    return [
        *lines,
        ("Cost", cost_line(answer, answer.entry(advice.arm))),
        ("Trust", f"{advice.trust} (A best, D lowest){reason}"),
        *(
            ("Load" if document.serving else "Sizes", line)
            for line in advice.headline[SIZES_PLACE:]
        ),
        *_stopped(answer),
    ]


def _stopped(answer: RunAnswer) -> list[tuple[str, str]]:
    return [("Stopped", line) for line in text_report.stop_notice(answer.document)]


def cost_line(answer: RunAnswer, entry: WorkflowEntry) -> str:
    """Return what an arm costs its user: code, build, memory, and the requests that repay it."""
    baseline = next((each for each in answer.ranked if each.arm == answer.baseline), None)
    if baseline is None or entry.arm == baseline.arm:
        return BASELINE_COST
    parts = [*_code(answer.workflow(entry)), *_build(entry), *_memory(entry, baseline)]
    advice = answer.recommendation
    if advice is not None and advice.arm == entry.arm and advice.break_even_requests is not None:
        requests = _round(advice.break_even_requests)
        parts.append(f"repaid after {requests} request{'' if requests == '1' else 's'}")
    return "; ".join(parts)


def describe_arm(answer: RunAnswer, arm: str) -> str:
    """Return the title of an arm, its options and its cost."""
    entry = answer.entry(arm)
    workflow = answer.workflow(entry)
    title = f": {text.printable(workflow.title, 80)}" if workflow is not None else ""
    options = f", options {text.printable(entry.options, 40)}" if entry.options else ""
    return f"{text.printable(arm, 60)}{title}{options}. {cost_line(answer, entry)}."


def _round(requests: float) -> str:
    """Return a number of requests with two significant digits."""
    return format_number(float(f"{max(requests, 1):.2g}"), decimals=0)


def _code(workflow: Workflow | None) -> list[str]:
    if workflow is None:
        return []
    lines = workflow.declared.lines_changed.value
    export = " and an export step" if workflow.declared.export_step.value else ""
    return [f"{lines} line{'' if lines == 1 else 's'} of code{export}"]


def _build(entry: WorkflowEntry) -> list[str]:
    build = entry.build_seconds
    if build is None:
        return []
    warm = f", {format_seconds(build.warm)} s from caches" if build.warm is not None else ""
    return [f"build {format_seconds(build.cold)} s{warm}"]


def _memory(entry: WorkflowEntry, baseline: WorkflowEntry) -> list[str]:
    ours, theirs = entry.memory_bytes, baseline.memory_bytes
    name = "eager" if baseline.id == BASELINE else baseline.id
    if ours is None or ours.peak is None:
        return []
    against = ""
    if theirs is not None and theirs.peak is not None:
        against = f" ({name} {format_mebibytes(theirs.peak)})"
    return [f"{format_mebibytes(ours.peak)} MiB{against}"]


def render_line(label: str, line: str, *, is_short: bool, is_marked: bool = False) -> Table:
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
    style = "reverse" if is_marked else "bold" if is_answer else "dim"
    grid.add_row(Text(label, style), shown)
    return grid
