"""The tables of a run in progress: its processes, and the latency of a server under load."""

from __future__ import annotations

from rich.text import Text

from advisor.decide.load_blocks import levels_of, valid_blocks
from advisor.domain.measurement import Cell
from advisor.domain.question import LoadQuestion
from advisor.domain.run_state import RunState
from advisor.domain.serving import RateLevel
from advisor.text_format import format_milliseconds, format_number, format_share, format_speedup
from advisor.tui import text
from advisor.tui.progress import ProcessRow, RowStatus
from advisor.tui.table import Column, Row
from probes.wire.shape import Shape

STYLES: dict[RowStatus, str] = {"done": "", "working": "bold", "waiting": "dim", "failed": "red"}

#: Significant digits of a figure.
DIGITS = 3
SPEED = Column("ratio", "Speed", 6, shown_from=70, is_numeric=True, terms=("speed-up", "baseline"))
#: Tokens per second, and milliseconds to the first token and between tokens.
GENERATION_COLUMNS = (
    Column("tokens", "tok/s", 6, is_numeric=True, terms=("throughput",)),
    Column("ttft", "TTFT", 6, shown_from=80, is_numeric=True, terms=("TTFT",)),
    Column("itl", "ITL", 6, shown_from=80, is_numeric=True, terms=("ITL",)),
    SPEED,
    Column("time", "Busy", 6, shown_from=100, is_numeric=True),
)


def process_columns(shape: Shape | None, *, generates_text: bool) -> tuple[Column, ...]:
    """Return the columns of the processes, with figures at a shape."""
    heading = f"ms @{shape}" if shape else "ms/call"
    figures = (
        GENERATION_COLUMNS
        if generates_text
        else (
            Column("ms", heading, 7, most=len(heading), is_numeric=True, terms=("call time",)),
            SPEED,
            Column("time", "Busy", 6, shown_from=80, is_numeric=True),
        )
    )
    return (
        Column("status", "", 1),
        Column("arm", "Process", 16, most=44, is_name=True, terms=("worker", "arm", "duplicate")),
        Column("phase", "Phase", 11, terms=("cold build", "round")),
        Column("progress", "Progress", 9, most=60, terms=("interval", "speed-up", "round")),
        *figures,
    )


def process_cells(row: ProcessRow, cell: Cell | None, phase_seconds: float, *, fit: bool) -> Row:
    """Return the cells of a process.

    `cell` has its provisional figures: the time of a call is that of the baseline over the
    speed-up. If the machine is not `fit`, only the interval is shown. `phase_seconds` is the time
    since the current phase began.
    """
    single = cell if fit else None
    generated = single.generation if single else None
    return {
        "status": row.glyph,
        "arm": row.name,
        "phase": row.label,
        "progress": cell.speedup if cell else row.reason or row.progress,
        "ms": format_milliseconds(single.seconds.median if single else None, DIGITS),
        "tokens": format_number(single.throughput.value if single else None, digits=DIGITS),
        "ttft": format_milliseconds(generated.ttft_seconds if generated else None, DIGITS),
        "itl": format_milliseconds(generated.itl_seconds if generated else None, DIGITS),
        "ratio": format_speedup(single.speedup if single else None),
        "time": text.format_duration(phase_seconds) if row.status == "working" else "",
    }


#: Characters of a bar; a full one is at the limit or above it.
BAR_WIDTH = 12
FULL, EMPTY = "\N{FULL BLOCK}", "\N{LIGHT SHADE}"
#: Place of the 95th percentile in the figures of a level.
P95 = 1


def draw_load(state: RunState, load: LoadQuestion, active_arm: str | None) -> Text:
    """Return a line for each rate of the server under load, or of the one that was last."""
    measured = [
        arm
        for arm, processes in state.processes.items()
        if any(process.load_blocks for process in processes)
    ]
    if not measured:
        return Text("No block of requests has ended yet.", "dim")
    arm = active_arm if active_arm in measured else measured[-1]
    levels = levels_of(valid_blocks(state.processes[arm]), load, None)
    ttft, itl = format_milliseconds(load.ttft_seconds), format_milliseconds(load.itl_seconds)
    limits = f"bars end at the limits, {ttft} and {itl} ms"
    head = f"{'requests/s':>10} {'in limits':>10} {'TTFT p95':>9} {'':{BAR_WIDTH}} {'ITL p95':>9}"
    lines = [Text(f"{text.printable(arm, 44)}: {limits}", "bold"), Text(head, "dim")]
    return Text("\n").join([*lines, *(Text(_line(level, load)) for level in levels)])


def _line(level: RateLevel, load: LoadQuestion) -> str:
    ttft = level.ttft_seconds[P95] if level.ttft_seconds else None
    itl = level.itl_seconds[P95] if level.itl_seconds else None
    return (
        f"{format_number(level.rate):>10} {format_share(level.met):>10}"
        f" {format_milliseconds(ttft):>9} {_bar(ttft, load.ttft_seconds)}"
        f" {format_milliseconds(itl):>9} {_bar(itl, load.itl_seconds)}"
    )


def _bar(seconds: float | None, limit: float) -> str:
    full = min(round(BAR_WIDTH * (seconds or 0.0) / limit), BAR_WIDTH)
    return FULL * full + EMPTY * (BAR_WIDTH - full)
