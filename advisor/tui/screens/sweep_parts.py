"""The texts and tables of a sweep: its answer, its lengths, and the arms of their mix."""

from __future__ import annotations

from rich.text import Text

from advisor.domain.answer import RankedArm
from advisor.domain.sweep import Lengths
from advisor.report.formatting.phrases import format_lengths, length_unit
from advisor.report.sections.ranking_cells import rank_cell, score_cell
from advisor.report.sweeps import sweep_text
from advisor.report.sweeps.sweep_document import LengthEntry, SweepDocument
from advisor.store.runs import RunStatus
from advisor.system.number_format import MISSING, format_interval, format_seconds, format_share
from advisor.tui.rendering import text
from advisor.tui.rendering.answer_lines import FIRST_LINES, headline_lines
from advisor.tui.widgets.table import Column

#: Width of the terminal from which there is room for the interval of the speed-up.
WIDE_WIDTH = 100
SPEED_TERMS = ("speed-up", "baseline")
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


def length_columns(document: SweepDocument, width: int) -> list[Column]:
    heading = "Inputs" if document.task == "forward" else "In/out"
    speed = 22 if width >= WIDE_WIDTH else 6
    return [
        Column("lengths", heading, 6, most=20, is_numeric=True, is_name=True, terms=("sweep",)),
        Column("share", "Share", 6, is_numeric=True, terms=("sweep",)),
        Column("arm", "Advised", 12, most=44, is_name=True, terms=("workflow", "arm")),
        Column("speed", "Speed", speed, is_numeric=True, terms=(*SPEED_TERMS, "interval")),
        Column("decision", "Decision", 8, terms=("CLEAR, LIKELY, OPEN",)),
        Column("trust", "Trust", 5, terms=("trust",)),
        Column("run", "Run", 20, shown_from=140),
    ]


def length_cells(
    entry: LengthEntry,
    document: SweepDocument,
    state: RunStatus | None,
    width: int,
) -> dict[str, str]:
    """Return the cells of a length; `state` is that of its run, None without one."""
    is_wide = width >= WIDE_WIDTH
    speed = entry.answer.speedup
    ratio = text.format_ratio(speed.value) if speed else MISSING
    return {
        "lengths": format_lengths(entry.lengths, document.task),
        "share": format_share(entry.share, decimals=None),
        "arm": entry.answer.arm or _absence(entry, state),
        "speed": format_interval(speed) if is_wide and speed else ratio,
        "decision": entry.answer.decision_word or MISSING,
        "trust": entry.answer.trust or MISSING,
        "run": entry.run_id or MISSING,
    }


def _absence(entry: LengthEntry, state: RunStatus | None) -> str:
    """Return why a length has no advice, in a word."""
    if entry.finished:
        return "no answer"
    return state or "not measured"


def arm_columns(document: SweepDocument) -> list[Column]:
    """Return the columns of the arms of the mix, with as many lengths as fit."""
    names = [format_lengths(each.lengths, document.task) for each in document.lengths]
    before = 42  # cells of the columns before the first length, and of those after the last
    lengths = []
    for index, name in enumerate(names):
        width = max(len(name), 7)
        before += width + 1
        lengths.append(
            Column(
                _length_key(index),
                name,
                width,
                shown_from=before,
                is_numeric=True,
                terms=SPEED_TERMS,
            )
        )
    return [
        Column("rank", "#", 3, is_numeric=True, terms=("score",)),
        Column("arm", "Workflow", 12, most=44, is_name=True, terms=("workflow", "arm")),
        Column("mix", "Mix", 7, is_numeric=True, terms=(*SPEED_TERMS, "sweep")),
        *lengths,
        Column("build", "Build s", 8, shown_from=80, is_numeric=True, terms=("cold build",)),
        Column("score", "Score", 6, shown_from=80, is_numeric=True, terms=("score", "weights")),
    ]


def arm_cells(entry: RankedArm, document: SweepDocument) -> dict[str, str]:
    """Return the cells of an arm of the mix, with its speed-up at each length."""
    by_length = _speedups(document, entry.arm)
    return {
        "rank": rank_cell(entry.scored),
        "arm": entry.arm,
        "mix": text.format_ratio(entry.scored.speedup),
        **{
            _length_key(index): text.format_ratio(by_length.get(each.lengths))
            for index, each in enumerate(document.lengths)
        },
        "build": format_seconds(entry.measured.build_seconds.cold if entry.measured else None),
        "score": score_cell(entry.scored),
    }


def _speedups(document: SweepDocument, arm: str) -> dict[Lengths, float]:
    curve = next((curve for curve in document.curves if curve.arm == arm), None)
    return {point.lengths: point.speedup.value for point in curve.points} if curve else {}


def _length_key(index: int) -> str:
    return f"length-{index}"
