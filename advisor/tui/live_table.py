"""Derive the table and the stage line of a run in progress from its state."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from typing import Literal

import msgspec

from advisor.domain.measurement import Cell
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.text import format_milliseconds, format_number, format_speedup
from advisor.tui import panels
from advisor.tui.table import Column, Row
from probes.outcome import Phase
from probes.shape import Shape

RowStatus = Literal["waiting", "working", "done", "failed"]
#: A phase of the worker, or what it waits for: its start ("queued"), the other arms ("imported",
#: "ready"), or what follows its races ("measured"); or "serving": its server is under load;
#: "final-check": of its outputs; or "skipping": the user has asked for its end.
RowPhase = (
    Phase | Literal["queued", "imported", "ready", "measured", "serving", "final-check", "skipping"]
)

STATUS_GLYPHS: dict[RowStatus, str] = {
    "waiting": "\N{MIDDLE DOT}",
    "working": "\N{BLACK RIGHT-POINTING TRIANGLE}",
    "done": "\N{CHECK MARK}",
    "failed": "\N{BALLOT X}",
}
STYLES: dict[RowStatus, str] = {"done": "", "working": "bold", "waiting": "dim", "failed": "red"}
PHASE_LABELS: dict[RowPhase, str] = {
    "build": "compile",
    "warmup": "warm-up",
    "imported": "waiting",
    "correctness": "checking",
    "serving": "under load",
    "sustain": "sustained",
    "diagnose": "profile",
    "final-check": "checking",
}
#: What is done after the races, by the phase of the active arm.
FURTHER_STAGES: dict[RowPhase, str] = {
    "sustain": "Calling the fastest arms without a pause",
    "diagnose": "Profiling the calls",
    "new-shapes": "Trying shapes that were not built",
    "final-check": "Checking the final outputs",
}


class ProcessRow(msgspec.Struct, frozen=True, kw_only=True):
    arm: str
    status: RowStatus = "waiting"
    phase: RowPhase = "queued"
    work_done: str = ""
    #: Status and reason of a failure.
    failure: str = ""
    reason: str = ""
    #: The arm that this one duplicates to give the noise floor.
    duplicate_of: str | None = None

    @property
    def style(self) -> str:
        return "dim" if self.failure == "skipped" else STYLES[self.status]

    @property
    def is_started(self) -> bool:
        """Whether the stack is imported and the arm has not failed."""
        before = {"queued", "start", "import", "imported"}
        return self.status != "failed" and self.phase not in before

    @property
    def is_built(self) -> bool:
        built = {"ready", "measure", "measured", "serving", "done", *FURTHER_STAGES}
        return self.status != "failed" and self.phase in built


def process_rows(
    state: RunState, question: Question, active_arm: str | None, skipped: Collection[str] = ()
) -> list[ProcessRow]:
    """Return a row for each arm; `skipped` are those whose end the user has asked for."""
    rows = [_row(one, state, question, is_active=one.id == active_arm) for one in state.plan.arms]
    return [
        msgspec.structs.replace(row, phase="skipping")
        if row.arm in skipped and row.status in {"waiting", "working"}
        else row
        for row in rows
    ]


def _row(planned: Arm, state: RunState, question: Question, *, is_active: bool) -> ProcessRow:
    row = ProcessRow(arm=planned.id, duplicate_of=planned.duplicate_of)
    process = (state.processes.get(planned.id) or (None,))[-1]
    if process is None or process.is_lost:
        return row
    change, failure = functools.partial(msgspec.structs.replace, row), process.failure
    if failure is not None:
        status, reason = failure.status, failure.reason
        return change(status="failed", phase=failure.phase, failure=status, reason=reason)
    if process.outcome is not None:
        return change(status="done", phase="done", work_done=_count_work(process, "done", 0))
    phase = _phase(process, state, planned.id)
    if phase in FURTHER_STAGES and not is_active:
        phase = "measured"
    is_working = is_active and phase not in {"imported", "ready", "measured"}
    work_done = _count_work(process, phase, len(question.shapes))
    return change(status="working" if is_working else "waiting", phase=phase, work_done=work_done)


def _phase(process: ProcessState, state: RunState, arm: str) -> RowPhase:
    if process.ready and process.serving is not None:
        return "serving"
    if process.ready:
        shape = _racing_shape(state)
        if shape is not None and arm in state.last_groups[shape]:
            return "measure"
        phase: RowPhase = "final-check" if process.phase == "done" else process.phase
        return phase if phase in FURTHER_STAGES else "measured" if process.visits else "ready"
    if process.imported is not None and process.opened is None and process.phase == "import":
        return "imported"
    return process.phase


def _count_work(process: ProcessState, phase: RowPhase, shapes: int) -> str:
    if process.load_blocks:
        return f"{len(process.load_blocks)} blocks"
    if phase == "done" or process.ready:
        return f"{len(process.visits)} rounds" if process.visits else ""
    if process.opened is not None and shapes > 1:
        return f"{len(process.warmed_up)}/{shapes} shapes"
    return ""


def current_stage(
    state: RunState, question: Question, rows: list[ProcessRow], *, is_running: bool
) -> str:
    if not is_running:
        return "Done" if state.finished else "Stopped"
    if waits_for_quiet(state):
        return "Waiting until the machine is quiet"
    if (shape := _racing_shape(state)) is not None:
        return _race_stage(state, question, shape)
    if any(row.phase == "serving" for row in rows):
        done = sum(row.status in {"done", "failed"} for row in rows)
        return f"Server {done + 1} of {len(rows)} is under load"
    is_raced = all(shape in state.closed for shape in question.shapes)
    is_building = any(row.is_started and not row.is_built for row in rows)
    if is_raced and (state.repeats or not is_building):
        active = (FURTHER_STAGES.get(row.phase) for row in rows if row.status == "working")
        return _repetition(state) or next(active, None) or "Deciding what to measure next"
    total = sum(row.status != "failed" for row in rows)
    if not any(row.is_started for row in rows):
        imported = sum(row.phase == "imported" for row in rows)
        return f"Importing the stacks, {imported} of {total}"
    return f"Compiling, {sum(row.is_built for row in rows)} of {total} processes ready"


def _race_stage(state: RunState, question: Question, shape: Shape) -> str:
    place = list(state.last_groups).index(shape) + 1
    processes = [process for each in state.processes.values() for process in each]
    visits = [visit for each in processes for visit in each.visits if visit.shape == shape]
    latest = max((visit.round for visit in visits), default=0)
    return (
        f"Measuring batch {shape} ({place} of {len(question.shapes)}),"
        f" round {latest}, at most {question.budget.most_rounds}"
    )


def waits_for_quiet(state: RunState) -> bool:
    check = state.quiet_check
    if check is None or not check.problems:
        return False
    return check.waited_seconds < check.allowed_seconds


def describe_wait(state: RunState, now: float) -> str:
    check = state.quiet_check
    if check is None or not waits_for_quiet(state):
        return ""
    left = max(check.allowed_seconds - check.waited_seconds - (now - state.at), 0.0)
    return f"Measuring begins in {panels.format_clock(left)} at the latest; x cancels"


def _repetition(state: RunState) -> str:
    number, arms = max(state.repeats.items(), default=(0, ()))
    ended = {
        arm
        for arm in arms
        for process in state.processes.get(arm, ())
        if process.repeat == number and process.outcome is not None
    }
    measured = {each.id: each.duplicate_of or each.id for each in state.plan.arms}
    leaders = ", ".join(dict.fromkeys(measured[arm] for arm in arms))
    return "" if ended == {*arms} else f"Repetition {number} in fresh processes: {leaders}"


def _racing_shape(state: RunState) -> Shape | None:
    """Return the shape whose race is open and whose workers are ready.

    After the run was resumed, new workers are built before the race goes on.
    """
    racing = [shape for shape in state.last_groups if shape not in state.closed]
    arms = state.last_groups[racing[-1]] if racing else ()
    processes = [state.processes[arm][-1] for arm in arms if state.processes.get(arm)]
    running = [each for each in processes if each.outcome is None and not each.is_lost]
    return racing[-1] if running and all(each.ready for each in running) else None


def remaining_seconds(state: RunState, question: Question, now: float) -> float | None:
    """Return the seconds until the time limit, negative after it; None before it counts.

    A resumed run has all of its time limit again. None without a limit, too.
    """
    if waits_for_quiet(state):
        return None
    waited = state.quiet_check.waited_seconds if state.quiet_check else 0.0
    left = state.resumed_at + waited + question.seconds - now
    return left if left < math.inf else None


#: Significant digits of a figure.
DIGITS = 3
SPEED = Column("ratio", "Speed", 6, shown_from=70, is_numeric=True)
#: Tokens per second, and milliseconds to the first token and between tokens.
GENERATION_COLUMNS = (
    Column("tokens", "tok/s", 6, is_numeric=True),
    Column("ttft", "TTFT", 6, shown_from=80, is_numeric=True),
    Column("itl", "ITL", 6, shown_from=80, is_numeric=True),
    SPEED,
    Column("time", "Busy", 6, shown_from=100, is_numeric=True),
)


def process_columns(shape: Shape | None, *, generates_text: bool) -> tuple[Column, ...]:
    heading = f"ms @{shape}" if shape else "ms/call"
    figures: tuple[Column, ...] = GENERATION_COLUMNS
    if not generates_text:
        call = Column("ms", heading, 7, most=len(heading), is_numeric=True)
        figures = (call, SPEED, Column("time", "Busy", 6, shown_from=80, is_numeric=True))
    return (
        Column("status", "", 1),
        Column("arm", "Process", 16, most=44, is_name=True),
        Column("phase", "Phase", 11),
        Column("progress", "Progress", 9, most=60),
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
        "status": STATUS_GLYPHS[row.status],
        "arm": f"{row.duplicate_of} (noise check)" if row.duplicate_of else row.arm,
        "phase": row.failure or PHASE_LABELS.get(row.phase, row.phase),
        "progress": cell.speedup if cell else row.reason or row.work_done,
        "ms": format_milliseconds(single.seconds.median if single else None, DIGITS),
        "tokens": format_number(single.throughput.value if single else None, digits=DIGITS),
        "ttft": format_milliseconds(generated.ttft_seconds if generated else None, DIGITS),
        "itl": format_milliseconds(generated.itl_seconds if generated else None, DIGITS),
        "ratio": format_speedup(single.speedup if single else None),
        "time": panels.format_clock(phase_seconds) if row.status == "working" else "",
    }
