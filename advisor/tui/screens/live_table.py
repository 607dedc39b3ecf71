"""Lay out the table of processes of a run in progress."""

from __future__ import annotations

from advisor.system.number_format import MISSING
from advisor.tui.rendering import text
from advisor.tui.run.progress import GenerationFigures, ProcessRow, RowStatus
from advisor.tui.widgets.table import Column

STYLES: dict[RowStatus, str] = {"done": "", "working": "bold", "waiting": "dim", "failed": "red"}

CALL_COLUMNS = [Column("ms", "ms", 6, is_numeric=True)]
#: Tokens per second, and milliseconds to the first token and between tokens.
GENERATION_COLUMNS = [
    Column("tokens", "tok/s", 6, is_numeric=True),
    Column("ttft", "TTFT", 6, is_numeric=True),
    Column("itl", "ITL", 6, is_numeric=True),
]
#: Widths of the terminal from which there is room for: the ratio; the time of calls, and all
#: figures of generated text; the time of generated text, and a wider progress.
RATIO_WIDTH, MEDIUM_WIDTH, WIDE_WIDTH = 70, 80, 100


def arm_width(width: int, *, generates_text: bool) -> int:
    """Return the width of the column of arms in a terminal of a width."""
    additional = 0
    if generates_text and width >= MEDIUM_WIDTH:
        additional = 9 if width < WIDE_WIDTH else 16
    return max(min(width - 53 - additional, 44), 16)


def process_columns(width: int, *, generates_text: bool) -> list[Column]:
    """Return the columns that fit into a terminal of a width."""
    figures = CALL_COLUMNS
    if generates_text:
        figures = GENERATION_COLUMNS if width >= MEDIUM_WIDTH else GENERATION_COLUMNS[:1]
    arm = arm_width(width, generates_text=generates_text)
    progress = 9
    if width >= WIDE_WIDTH:
        progress = max(width - arm - 48 - (len(figures) - 1) * 8, 9)
    columns = [
        Column("status", "", 1),
        Column("arm", "Process", arm),
        Column("phase", "Phase", 11),
        Column("progress", "Progress", progress),
        *figures,
    ]
    if width >= RATIO_WIDTH:
        columns.append(Column("ratio", "so far", 6, is_numeric=True))
    if width >= (WIDE_WIDTH if generates_text else MEDIUM_WIDTH):
        columns.append(Column("time", "Time", 5, is_numeric=True))
    return columns


def process_cells(
    row: ProcessRow, width: int, *, ratio: float | None, phase_seconds: float
) -> dict[str, str]:
    """Return the cells of a process.

    `width` is that of the column of arms, `ratio` the provisional speed-up, and `phase_seconds` the
    time since the current phase began.
    """
    return {
        "status": row.glyph,
        "arm": text.truncate_middle(text.printable(row.arm), width),
        "phase": row.label,
        "progress": text.printable(row.reason, 200) if row.reason else row.progress,
        "ms": text.format_milliseconds(row.seconds),
        **_generation_cells(row.generation),
        "ratio": text.format_ratio(ratio),
        "time": text.format_duration(phase_seconds) if row.status == "working" else "",
    }


def _generation_cells(figures: GenerationFigures | None) -> dict[str, str]:
    if figures is None:
        return dict.fromkeys(("tokens", "ttft", "itl"), MISSING)
    return {
        "tokens": text.format_number(figures.tokens_per_second),
        "ttft": text.format_milliseconds(figures.ttft_seconds),
        "itl": text.format_milliseconds(figures.itl_seconds),
    }
