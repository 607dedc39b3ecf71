"""An answer as the screens show it: its title and its lines."""

from __future__ import annotations

import dataclasses

from rich.cells import cell_len
from rich.text import Text

from advisor.decide.decision import decide_again
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import Priorities
from advisor.report.answer import code_lines, cost_line, short_answer_lines
from advisor.store.runs import Run
from advisor.tui import text


@dataclasses.dataclass(frozen=True)
class RunAnswer:
    """An answer with the catalogue that explains it."""

    document: Answer
    catalogue: Catalogue
    #: The run with its events and the logs of its arms; None for an answer from a file.
    run: Run | None = None
    #: The file of an answer that may be of another user or machine.
    file: str = ""

    def with_priorities(self, priorities: Priorities) -> RunAnswer:
        again = decide_again(self.document, self.catalogue, priorities=priorities)
        return dataclasses.replace(self, document=again)

    @property
    def source(self) -> str:
        """The run or the file as commands take it; empty for neither."""
        return str(self.run.directory) if self.run is not None else self.file

    @property
    def priorities(self) -> Priorities:
        return self.document.question.priorities

    def ranked_arm(self, arm: str) -> RankedArm:
        return next(each for each in self.document.ranked if each.arm == arm)


#: Colours of the decision's word.
DECISION_COLOURS: dict[str, str] = {"CLEAR": "green", "LIKELY": "cyan", "OPEN": "yellow"}
#: Of the code in an answer; c prints all of it.
MOST_CODE_LINES, MAX_CODE_CELLS = 5, 70
#: Names of the tasks other than a forward pass.
TASK_NAMES = {"generate": "generate text", "serve": "serve requests"}
LEAD = "Results  "
DOT = " \N{MIDDLE DOT} "
#: Cells of the label of the program before the title.
PROGRAM_CELLS = 5
MAX_MODEL_CELLS, MIN_MODEL_CELLS, MAX_DEVICE_CELLS = 30, 12, 24


def describe_arm(answer: RunAnswer, arm: str) -> str:
    entry = answer.ranked_arm(arm)
    title, cost = text.printable(entry.scored.title, 80), cost_line(answer.document, entry)
    return f"{text.printable(arm, 60)}: {title}. {cost}."


def render_answer_lines(answer: RunAnswer, lead: str = "") -> Text:
    """Return the lines that `p3-advisor show` prints first; `lead` comes before them."""
    first, *others = short_answer_lines(answer.document)
    advice = answer.document.recommendation
    word = advice.decision.word if advice else None
    shown = [text.styled(text.printable(lead + first, 600), "bold")]
    for line in others:
        start = Text()
        if word is not None and line.startswith(word):
            start = text.styled(word, f"bold {DECISION_COLOURS[word]}")
        shown.append(start + Text(text.printable(line, 600)[len(start) :]))
    # The decision stays in sight above the code.
    shown[2:2] = [
        text.styled(f"    {text.printable(line, MAX_CODE_CELLS)}", "cyan")
        for line in code_lines(answer.document, MOST_CODE_LINES)
    ]
    return Text("\n").join(shown)


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
    model = text.model_name(question.model.name, cells)
    return Text.assemble((LEAD, "bold"), DOT.join(filter(None, (model, *facts))))


def _cells(facts: tuple[str, ...]) -> int:
    """Return the width of facts that follow the model."""
    return sum(cell_len(fact) + len(DOT) for fact in facts if fact)
