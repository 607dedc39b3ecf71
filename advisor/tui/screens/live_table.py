"""Lay out the table of processes of a run in progress."""

from __future__ import annotations

from advisor.domain.interval import Interval
from advisor.system.number_format import MISSING
from advisor.tui.rendering import text
from advisor.tui.rendering.plot import SpeedAxis
from advisor.tui.run.progress import GenerationFigures, ProcessRow, RowStatus
from advisor.tui.widgets.table import Column

STYLES: dict[RowStatus, str] = {"done": "", "working": "bold", "waiting": "dim", "failed": "red"}

CALL_COLUMNS = [Column("ms", "ms/call", 7, is_numeric=True, terms=("call time",))]
#: Tokens per second, and milliseconds to the first token and between tokens.
GENERATION_COLUMNS = [
    Column("tokens", "tok/s", 6, is_numeric=True, terms=("throughput",)),
    Column("ttft", "TTFT", 6, is_numeric=True, terms=("TTFT",)),
    Column("itl", "ITL", 6, is_numeric=True, terms=("ITL",)),
]
#: Widths of the terminal from which there is room for the ratio; for the time of calls, and all
#: figures of generated text; and for the time of generated text.
RATIO_WIDTH, MEDIUM_WIDTH, WIDE_WIDTH = 70, 80, 100
MIN_ARM_WIDTH, MAX_ARM_WIDTH = 16, 44
MIN_BAR_WIDTH, MAX_BAR_WIDTH = 9, 60


def process_columns(width: int, *, generates_text: bool, longest: int) -> list[Column]:
    """Return the columns that fit into a terminal of a width.

    `longest` is the length of the longest name of a process.
    """
    figures = CALL_COLUMNS
    if generates_text:
        figures = GENERATION_COLUMNS if width >= MEDIUM_WIDTH else GENERATION_COLUMNS[:1]
    columns = [*figures]
    if width >= RATIO_WIDTH:
        columns.append(Column("ratio", "Speed", 6, is_numeric=True, terms=("speed-up", "baseline")))
    if width >= (WIDE_WIDTH if generates_text else MEDIUM_WIDTH):
        columns.append(Column("time", "Busy", 6, is_numeric=True))
    rest = width - 1 - sum(column.width + 1 for column in columns) - 2 - 12
    arm = max(min(longest, rest - MIN_BAR_WIDTH - 2, MAX_ARM_WIDTH), MIN_ARM_WIDTH)
    bar = min(max(rest - arm - 2, MIN_BAR_WIDTH), MAX_BAR_WIDTH)
    return [
        Column("status", "", 1),
        Column("arm", "Process", arm, is_name=True, terms=("worker", "arm", "duplicate")),
        Column("phase", "Phase", 11, terms=("cold build", "round")),
        Column("progress", "Progress", bar, terms=("interval", "speed-up", "round")),
        *columns,
    ]


def process_cells(
    row: ProcessRow,
    *,
    speedup: Interval | None,
    axis: SpeedAxis | None,
    phase_seconds: float,
) -> dict[str, str]:
    """Return the cells of a process.

    `speedup` is provisional and drawn on `axis`; `phase_seconds` is the time since the current
    phase began.
    """
    progress = row.reason or row.progress
    if speedup is not None and axis is not None:
        progress = axis.bar(speedup)
    return {
        "status": row.glyph,
        "arm": row.name,
        "phase": row.label,
        "progress": progress,
        "ms": text.format_milliseconds(row.seconds),
        **_generation_cells(row.generation),
        "ratio": text.format_ratio(speedup.value if speedup is not None else None),
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
