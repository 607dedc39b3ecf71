"""Lay out the table of processes of a run in progress."""

from __future__ import annotations

from advisor.domain.interval import Interval
from advisor.system.number_format import MISSING
from advisor.tui.rendering import text
from advisor.tui.run.progress import GenerationFigures, ProcessRow, RowStatus
from advisor.tui.widgets.table import Column, Row

STYLES: dict[RowStatus, str] = {"done": "", "working": "bold", "waiting": "dim", "failed": "red"}

SPEED_TERMS = ("speed-up", "baseline")
CALL_COLUMNS = (
    Column("ms", "ms/call", 7, is_numeric=True, terms=("call time",)),
    Column("ratio", "Speed", 6, shown_from=70, is_numeric=True, terms=SPEED_TERMS),
    Column("time", "Busy", 6, shown_from=80, is_numeric=True),
)
#: Tokens per second, and milliseconds to the first token and between tokens.
GENERATION_COLUMNS = (
    Column("tokens", "tok/s", 6, is_numeric=True, terms=("throughput",)),
    Column("ttft", "TTFT", 6, shown_from=80, is_numeric=True, terms=("TTFT",)),
    Column("itl", "ITL", 6, shown_from=80, is_numeric=True, terms=("ITL",)),
    Column("ratio", "Speed", 6, shown_from=70, is_numeric=True, terms=SPEED_TERMS),
    Column("time", "Busy", 6, shown_from=100, is_numeric=True),
)


def process_columns(*, generates_text: bool) -> tuple[Column, ...]:
    return (
        Column("status", "", 1),
        Column("arm", "Process", 16, most=44, is_name=True, terms=("worker", "arm", "duplicate")),
        Column("phase", "Phase", 11, terms=("cold build", "round")),
        Column("progress", "Progress", 9, most=60, terms=("interval", "speed-up", "round")),
        *(GENERATION_COLUMNS if generates_text else CALL_COLUMNS),
    )


def process_cells(row: ProcessRow, speedup: Interval | None, phase_seconds: float) -> Row:
    """Return the cells of a process.

    `speedup` is provisional; `phase_seconds` is the time since the current phase began.
    """
    return {
        "status": row.glyph,
        "arm": row.name,
        "phase": row.label,
        "progress": speedup or row.reason or row.progress,
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
