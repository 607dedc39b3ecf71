"""The state of a run, folded from its events: the one view that the table, the JSON, the screens and a resumed run share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from advisor.domain.events import DeviceMemory, Ended, Event, Finished, Heard, Planned, RaceClosed, RaceOpened, Resumed, Spawned
from advisor.domain.outcome import (
    Built,
    Checked,
    Engaged,
    Entered,
    Imported,
    Loaded,
    MemoryRead,
    Outcome,
    Phase,
    Ready,
    Visited,
    Warm,
    Workload,
)
from advisor.domain.plan import Plan


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process, as far as it has come."""

    phase: Phase = "start"
    imported: Imported | None = None
    loaded: Loaded | None = None
    built: dict[int, Built] = {}
    checked: dict[int, Checked] = {}
    engaged: Engaged | None = None
    warm: dict[int, Warm] = {}
    memory: MemoryRead | None = None
    device_memory: DeviceMemory | None = None
    ready: bool = False
    visits: tuple[Visited, ...] = ()
    workload: dict[int, int | None] = {}
    outcome: Outcome | None = None


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as far as it has come."""

    plan: Plan | None = None
    #: By arm, its processes in the order they were started.
    processes: dict[str, tuple[ProcessState, ...]] = {}
    #: By batch size, the arms that entered its race, and why the race was closed.
    opened: dict[int, tuple[str, ...]] = {}
    closed: dict[int, str] = {}
    finished: bool = False
    #: Place of the last event, and its time.
    seq: int = 0
    at: float = 0.0


def fold(events: Iterable[Event], state: RunState | None = None) -> RunState:
    """Return the state after `events`, starting from `state` or from nothing."""
    state = state or RunState()
    for event in events:
        state = msgspec.structs.replace(_apply(state, event), seq=event.seq, at=event.at)
    return state


def _apply(state: RunState, event: Event) -> RunState:
    happening = event.happening
    match happening:
        case Planned():
            return msgspec.structs.replace(state, plan=happening.plan)
        case Spawned():
            known = state.processes.get(happening.arm, ())
            return _with_processes(state, happening.arm, (*known, ProcessState()))
        case Heard():
            return _change(state, happening.arm, happening.process, **_heard(state, happening))
        case Ended():
            return _change(state, happening.arm, happening.process, outcome=happening.outcome)
        case DeviceMemory():
            return _change(state, happening.arm, happening.process, device_memory=happening)
        case RaceOpened():
            return msgspec.structs.replace(state, opened={**state.opened, happening.batch_size: happening.arms})
        case RaceClosed():
            return msgspec.structs.replace(state, closed={**state.closed, happening.batch_size: happening.reason})
        case Finished():
            return msgspec.structs.replace(state, finished=True)
        case Resumed():
            return state


#: Field of `ProcessState` that keeps what was said, by its type: the last one, or one for each batch size.
KEPT: dict[type, str] = {Imported: "imported", Loaded: "loaded", Engaged: "engaged", MemoryRead: "memory"}
KEPT_BY_BATCH_SIZE: dict[type, str] = {Built: "built", Checked: "checked", Warm: "warm"}


def _heard(state: RunState, heard: Heard) -> dict[str, Any]:
    process = state.processes[heard.arm][heard.process]
    match heard.said:
        case Entered(phase=phase):
            return {"phase": phase}
        case Ready():
            return {"ready": True}
        case Visited() as visit:
            return {"visits": (*process.visits, visit)}
        case Workload(batch_size=size, flops=flops):
            return {"workload": {**process.workload, size: flops}}
        case Built() | Checked() | Warm() as said:
            field = KEPT_BY_BATCH_SIZE[type(said)]
            return {field: {**getattr(process, field), said.batch_size: said}}
        case said:
            return {KEPT[type(said)]: said}


def _change(state: RunState, arm: str, process: int, **changes: Any) -> RunState:  # noqa: ANN401 - fields of ProcessState
    known = list(state.processes[arm])
    known[process] = msgspec.structs.replace(known[process], **changes)
    return _with_processes(state, arm, tuple(known))


def _with_processes(state: RunState, arm: str, processes: tuple[ProcessState, ...]) -> RunState:
    return msgspec.structs.replace(state, processes={**state.processes, arm: processes})
