"""An answer as the screens show it: its title and its labelled lines."""

from __future__ import annotations

import dataclasses

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from advisor.decide.decision import decide_again
from advisor.domain.answer import Answer, HeadlinePart, RankedArm
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import Priorities
from advisor.domain.recommendation import DecisionWord
from advisor.report.answer import cost_line, headline, stop_notice, unfit_notice
from advisor.store.runs import Run
from advisor.tui import text


@dataclasses.dataclass(frozen=True)
class RunAnswer:
    """An answer with the catalogue that explains it."""

    document: Answer
    catalogue: Catalogue
    #: The run with its events and the logs of its arms; None for an answer from a file.
    run: Run | None = None

    @classmethod
    def of_file(cls, answer: Answer, catalogue: Catalogue) -> RunAnswer:
        """Decide again on the figures of a file; raise `ExportFileError` without any."""
        return cls(decide_again(answer, catalogue), catalogue.for_question(answer.question))

    def with_priorities(self, priorities: Priorities) -> RunAnswer:
        again = decide_again(self.document, self.catalogue, priorities=priorities)
        return dataclasses.replace(self, document=again)

    @property
    def priorities(self) -> Priorities:
        return self.document.question.priorities

    def ranked_arm(self, arm: str) -> RankedArm:
        return next(each for each in self.document.ranked if each.arm == arm)


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
    "Sure?": ("CLEAR, LIKELY, OPEN", "certainty", "speed-up", "interval", "baseline"),
    "Unless": ("flip", "weights", "criterion"),
    "Cost": ("cold build", "memory", "break-even"),
    "Trust": ("trust", "noise floor"),
    "Sizes": ("speed-up",),
    "Load": ("goodput", "TTFT", "ITL"),
    "Weights": ("native, quantised",),
    "Error": ("exact, close", "accuracy"),
    "Note": ("unfit visit", "trust"),
    "Stopped": ("run",),
}
#: Labels of the lines of which short terminals show one row.
CUT_LABELS = {"Cost", "Trust"}
#: Colours of the decision's word.
DECISION_COLOURS: dict[DecisionWord, str] = {"CLEAR": "green", "LIKELY": "cyan", "OPEN": "yellow"}
#: Names of the tasks other than a forward pass.
TASK_NAMES = {"generate": "generate text", "serve": "serve requests"}
LEAD = "Results  "
DOT = " \N{MIDDLE DOT} "
#: Cells of the label of the program before the title.
PROGRAM_CELLS = 5
MAX_MODEL_CELLS, MIN_MODEL_CELLS, MAX_DEVICE_CELLS = 30, 12, 24


def answer_lines(answer: RunAnswer, lead: str = "") -> list[tuple[str, str]]:
    """Return pairs of label and line; `lead` comes before the answer."""
    document, advice = answer.document, answer.document.recommendation
    if advice is None or document.advised is None:
        lines = [("Answer", headline(document))]
        if document.problem is not None:
            lines.append(("Next", document.problem.next_step))
        return [*lines, *_notes(answer)]
    lines = headline_lines(document)
    lines, further = lines[:FIRST_LINES], lines[FIRST_LINES:]
    lines[0] = ("Answer", lead + lines[0][1])
    reason = f": {advice.trust_reasons[0]}" if advice.trust_reasons else ""
    return [
        *lines,
        ("Cost", cost_line(document, document.advised)),
        ("Trust", f"{advice.trust} (A best, D lowest){reason}"),
        *further,
        *_notes(answer),
    ]


def headline_lines(answer: Answer) -> list[tuple[str, str]]:
    return [(HEADLINE_LABELS[line.part], line.text) for line in answer.headline]


def _notes(answer: RunAnswer) -> list[tuple[str, str]]:
    return [
        *(("Note", line) for line in unfit_notice(answer.document)),
        *(("Stopped", line) for line in stop_notice(answer.document)),
    ]


def describe_arm(answer: RunAnswer, arm: str) -> str:
    entry = answer.ranked_arm(arm)
    title, cost = text.printable(entry.scored.title, 80), cost_line(answer.document, entry)
    return f"{text.printable(arm, 60)}: {title}. {cost}."


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
        if line.startswith(word):
            shown.stylize(f"bold {colour}", 0, len(word))
    grid.add_row(Text(label, "bold" if is_answer else "dim"), shown)
    return grid


def results_title(answer: RunAnswer, width: int) -> Text:
    """Return model, device, task, precision, batch sizes and several lengths.

    In a narrow terminal the task and then the precision are left out, and the model is shortened.
    """
    question = answer.document.question
    task = TASK_NAMES.get(question.task, "")
    # The clients of a server set its batch sizes.
    sizes = "" if question.load else ", ".join(map(str, question.batch_sizes))
    lengths = dict.fromkeys(shape.lengths for shape in question.shapes if shape.lengths)
    tokens = f", {'/'.join(lengths)} tokens" if lengths else ""
    batch = f"batch {sizes}{tokens}" if sizes else ""
    device = text.printable(answer.document.device_name, MAX_DEVICE_CELLS)
    room = width - PROGRAM_CELLS - len(LEAD)
    shortest = (device, batch.replace(", ", ","))
    candidates = ((device, task, question.dtype, batch), (device, question.dtype, batch))
    facts = next((each for each in candidates if room - _cells(each) >= MIN_MODEL_CELLS), shortest)
    cells = min(max(room - _cells(facts), MIN_MODEL_CELLS), MAX_MODEL_CELLS)
    model = text.truncate_middle(text.printable(question.model.name), cells)
    return Text.assemble((LEAD, "bold"), DOT.join(filter(None, (model, *facts))))


def _cells(facts: tuple[str, ...]) -> int:
    """Return the width of facts that follow the model."""
    return sum(cell_len(fact) + len(DOT) for fact in facts if fact)
