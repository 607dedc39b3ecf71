"""A run's state as rows to show: the same words for the same phases everywhere. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import msgspec

from advisor.domain.outcome import Completed
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run_state import ProcessState, RunState
from advisor.measure.arms import time_tokens

DONE, WORKING, WAITING, FAILED = (
    "\N{CHECK MARK}",
    "\N{BLACK RIGHT-POINTING TRIANGLE}",
    "\N{MIDDLE DOT}",
    "\N{BALLOT X}",
)
WORDS = {"build": "compile", "warmup": "warm-up"}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One arm, as far as it has come."""

    arm: str
    glyph: str
    phase: str
    progress: str
    #: Median seconds of a call at the batch size measured last.
    seconds: float | None
    #: What went wrong, in the stack's words.
    reason: str = ""
    flow: Flow | None = None


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """How fast text is generated, as measured last; null for what has not been measured yet."""

    tokens_per_second: float | None
    ttft_seconds: float | None
    itl_seconds: float | None


def rows_of(state: RunState, question: Question, active: str | None) -> list[Row]:
    """Return a row for each arm of the plan."""
    arms = state.plan.arms if state.plan else ()
    return [_row(arm, state, question, is_active=arm.id == active) for arm in arms]


def _row(arm: Arm, state: RunState, question: Question, *, is_active: bool) -> Row:
    processes = state.processes.get(arm.id, ())
    if not processes:
        return Row(arm=arm.id, glyph=WAITING, phase="queued", progress="", seconds=None)
    process = processes[-1]
    seconds = latest_seconds(process)
    flow = flow_of(process) if question.task == "generate" else None
    if process.outcome is not None and not isinstance(process.outcome, Completed):
        status = str(process.outcome.__struct_config__.tag)
        return Row(
            arm=arm.id,
            glyph=FAILED,
            phase=status,
            progress="",
            seconds=None,
            reason=process.outcome.reason,
        )
    if process.outcome is not None:
        return Row(
            arm=arm.id,
            glyph=DONE,
            phase="done",
            progress=_rounds(process),
            seconds=seconds,
            flow=flow,
        )
    phase, progress = _phase(process, state, question, arm.id)
    waits = phase in {"imported", "ready"}
    glyph = WORKING if is_active and not waits else WAITING
    return Row(arm=arm.id, glyph=glyph, phase=phase, progress=progress, seconds=seconds, flow=flow)


def _phase(process: ProcessState, state: RunState, question: Question, arm: str) -> tuple[str, str]:
    if process.ready:
        racing = [size for size in state.opened if size not in state.closed]
        if (racing and arm in state.opened[racing[-1]]) or process.visits:
            return "measure", _rounds(process)
        return "ready", ""
    if process.imported is not None and process.loaded is None and process.phase == "import":
        return "imported", ""
    sizes = len(question.batch_sizes)
    progress = (
        f"{len(process.warm)}/{sizes} sizes" if process.loaded is not None and sizes > 1 else ""
    )
    return WORDS.get(process.phase, process.phase), progress


def _rounds(process: ProcessState) -> str:
    return f"{len(process.visits)} visits" if process.visits else ""


def latest_seconds(process: ProcessState) -> float | None:
    """Return the median of the last visit's calls."""
    return statistics.median(process.visits[-1].seconds) if process.visits else None


def flow_of(process: ProcessState) -> Flow:
    """Return the figures of the batch size visited last; until then those of the one timed token by token last."""
    size = process.visits[-1].batch_size if process.visits else next(reversed(process.latency), 0)
    seconds, latency, loaded = latest_seconds(process), process.latency.get(size), process.loaded
    first, between = time_tokens(latency) if latency else (None, None)
    tokens = (
        size * loaded.units_per_sample if loaded is not None and loaded.unit == "tokens" else None
    )
    return Flow(
        tokens_per_second=tokens / seconds if tokens and seconds else None,
        ttft_seconds=first,
        itl_seconds=between,
    )


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What the run as a whole does."""

    title: str
    #: One glyph for each arm.
    marks: str
    is_timing: bool


def stage_of(state: RunState, question: Question, rows: list[Row], *, running: bool) -> Stage:
    """Return what goes on, with counts and never with a guess."""
    marks = "".join(
        "\N{BLACK SQUARE}" if row.phase in {"ready", "measure", "done"} else row.glyph
        for row in rows
    )
    if state.finished:
        return Stage(title="Done", marks=marks, is_timing=False)
    if not running:
        return Stage(title="Stopped", marks=marks, is_timing=False)
    racing = [size for size in state.opened if size not in state.closed]
    if racing:
        size = racing[-1]
        place = list(state.opened).index(size) + 1
        made = round_of(state, size)
        title = f"Measuring batch {size} ({place} of {len(question.batch_sizes)}), round {made}, at most {question.budget.most_rounds}"
        return Stage(title=title, marks=marks, is_timing=True)
    if state.closed:
        return Stage(title="Checking the last outputs", marks=marks, is_timing=False)
    built = sum(row.phase in {"ready", "done"} or row.glyph == FAILED for row in rows)
    if not any(
        row.phase not in {"queued", "start", "import", "imported"} and row.glyph != FAILED
        for row in rows
    ):
        imported = sum(row.phase == "imported" or row.glyph == FAILED for row in rows)
        return Stage(
            title=f"Starting the stacks, {imported} of {len(rows)}", marks=marks, is_timing=False
        )
    return Stage(
        title=f"Compiling, {built} of {len(rows)} processes ready", marks=marks, is_timing=False
    )


def round_of(state: RunState, batch_size: int) -> int:
    """Return the round that goes on."""
    counts: Mapping[str, int] = {
        arm: max(
            (
                visit.round
                for process in processes
                for visit in process.visits
                if visit.batch_size == batch_size
            ),
            default=0,
        )
        for arm, processes in state.processes.items()
    }
    return max(counts.values(), default=0)
