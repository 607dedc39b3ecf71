"""The title of the results: the question in one line."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from advisor.report.formatting.phrases import describe_lengths, lengths_of
from advisor.tui.answer import RunAnswer
from advisor.tui.rendering import text

#: Names of the tasks other than a forward pass.
TASK_NAMES = {"generate": "generate text", "serve": "serve requests"}
LEAD = "Results  "
DOT = " \N{MIDDLE DOT} "
#: Cells of the label of the program before the title.
PROGRAM_CELLS = 5
MAX_MODEL_CELLS, MIN_MODEL_CELLS, MAX_DEVICE_CELLS = 30, 12, 24


def results_title(answer: RunAnswer, width: int, *, with_lengths: bool = False) -> Text:
    """Return model, device, task, precision and batch sizes, and first the lengths if asked for.

    In a narrow terminal the task and then the precision are left out, and the model is shortened.
    """
    question = answer.document.question
    task = TASK_NAMES.get(question.task, "")
    # The clients of a server set its batch sizes.
    sizes = "" if question.load else ", ".join(map(str, question.batch_sizes))
    batch = f"batch {sizes}" if sizes else ""
    device = text.printable(answer.document.device_name, MAX_DEVICE_CELLS)
    lead = LEAD
    if with_lengths:
        lead = f"{LEAD.strip()}, {describe_lengths(lengths_of(question), question.task)}  "
    room = width - PROGRAM_CELLS - len(lead)
    shortest = (device, batch.replace(", ", ","))
    candidates = ((device, task, question.dtype, batch), (device, question.dtype, batch))
    facts = next((each for each in candidates if room - _cells(each) >= MIN_MODEL_CELLS), shortest)
    cells = min(max(room - _cells(facts), MIN_MODEL_CELLS), MAX_MODEL_CELLS)
    model = text.truncate_middle(text.printable(question.model.name), cells)
    return Text.assemble((lead, "bold"), DOT.join(filter(None, (model, *facts))))


def _cells(facts: tuple[str, ...]) -> int:
    """Return the width of facts that follow the model."""
    return sum(cell_len(fact) + len(DOT) for fact in facts if fact)
