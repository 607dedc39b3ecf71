"""The answer of a sweep as labelled lines, its title, and the notes on one of its lengths."""

from __future__ import annotations

from rich.text import Text

from advisor.report.formatting.phrases import length_unit
from advisor.report.sweeps import sweep_text
from advisor.report.sweeps.sweep_document import LengthEntry, SweepDocument
from advisor.system.number_format import format_interval
from advisor.tui.rendering import text
from advisor.tui.rendering.answer_lines import FIRST_LINES, headline_lines

#: The next step while the lengths that are left are measured.
GOING_ON = "wait: the lengths that are left are being measured; ctrl+g shows the progress"
MAX_MODEL_CELLS, MAX_DEVICE_CELLS = 30, 24
#: Most arms without a measurement at a length that are named below the table.
MAX_MISSING_ARMS = 3


def sweep_title(document: SweepDocument) -> Text:
    """Return model, device, precision and batch sizes."""
    facts = [
        text.truncate_middle(text.printable(document.model), MAX_MODEL_CELLS),
        text.printable(document.device_name, MAX_DEVICE_CELLS),
        document.dtype or "",
        f"batch {','.join(map(str, document.batch_sizes))}" if document.batch_sizes else "",
    ]
    return Text.assemble(("Sweep  ", "bold"), " \N{MIDDLE DOT} ".join(filter(None, facts)))


def sweep_lines(document: SweepDocument, *, is_going_on: bool) -> list[tuple[str, str]]:
    """Return pairs of label and line: the answer for the mix, and what the mix is."""
    advice, problem = document.recommendation, document.problem
    answer = document.mix_answer
    unit = length_unit(document.task)
    mix = ("Mix", f"{sweep_text.shares(document)} ({unit}), by the weighted geometric mean")
    if advice is None or answer is None:
        lines = [("Answer", sweep_text.answer(document)[0])]
        next_step = GOING_ON if is_going_on else problem.next_step if problem else ""
        return [*lines, *([("Next", next_step)] if next_step else []), mix]
    lines = headline_lines(answer)
    reason = f": {advice.trust_reasons[0]}" if advice.trust_reasons else ""
    trust = ("Trust", f"{advice.trust} (A best, D lowest){reason}")
    return [*lines[:FIRST_LINES], mix, trust, *lines[FIRST_LINES:]]


def length_notes(entry: LengthEntry, document: SweepDocument, state: str | None) -> list[str]:
    """Return the run of a length, its best arms, why others are missing, and its problem."""
    run = f"Run {entry.run_id}, {state or 'deleted'}" if entry.run_id else "not measured yet"
    best = [
        f"batch {cell.batch_size}: {cell.arm} {format_interval(cell.speedup)}"
        for cell in entry.cells
    ]
    notes = ["; ".join([run, *best])]
    if entry.limited_to:
        notes.append(sweep_text.limit_note(entry, document))
    problem = entry.answer.problem
    if problem is not None:
        notes.append(f"{problem.what}; next: {problem.next_step}")
    return [*notes, *_missing_notes(entry, document)]


def _missing_notes(entry: LengthEntry, document: SweepDocument) -> list[str]:
    """Return a line for each arm without a measurement at a length, with the reason."""
    lines = [
        f"{arm.arm}: {sweep_text.missing_reason(each)}"
        for arm in document.missing
        for each in arm.missing
        if each.lengths == entry.lengths
    ]
    shown, hidden = lines[:MAX_MISSING_ARMS], len(lines[MAX_MISSING_ARMS:])
    if hidden:
        shown.append(f"{hidden} more without a measurement; enter opens the run")
    return shown
