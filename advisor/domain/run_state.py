"""The state of a run, folded from its events: the one view that the table, the JSON, the screens and a resumed run share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from advisor.domain.measurement import Platform
from advisor.domain.outcome import Outcome, OutOfMemory
from advisor.domain.plan import REFERENCE, Plan
from advisor.domain.run_events import (
    ConditionsRecorded,
    DeviceMemory,
    Ended,
    Energy,
    Finished,
    LoggedEvent,
    MemoryChecked,
    Planned,
    PlatformKnown,
    RaceClosed,
    RaceOpened,
    Repeated,
    RunEvent,
    Spawned,
    Surveyed,
    WorkerReported,
)
from advisor.domain.worker_events import (
    BlockTimed,
    Built,
    Caches,
    Checked,
    Diagnosed,
    Engaged,
    Imported,
    Latency,
    Loaded,
    MemoryRead,
    NewShapeResult,
    Peaks,
    Phase,
    PhaseStarted,
    Ready,
    Recipe,
    Sustained,
    WarmedUp,
    WorkerEvent,
    Workload,
)


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process, as far as it has come."""

    #: 0 in the race itself, else the number of its repetition.
    repeat: int = 0
    phase: Phase = "start"
    #: When the build that goes on began, in seconds of the run; and what the one took in which the
    #: process ended.
    building_since: float | None = None
    lost_build_seconds: float = 0.0
    imported: Imported | None = None
    loaded: Loaded | None = None
    built: dict[int, Built] = {}
    checked: dict[int, Checked] = {}
    caches: Caches | None = None
    engaged: Engaged | None = None
    recipe: Recipe | None = None
    warm: dict[int, WarmedUp] = {}
    memory: MemoryRead | None = None
    device_memory: DeviceMemory | None = None
    ready: bool = False
    visits: tuple[BlockTimed, ...] = ()
    watched: tuple[ConditionsRecorded, ...] = ()
    workload: dict[int, int | None] = {}
    demand: dict[int, Workload] = {}
    latency: dict[int, Latency] = {}
    peaks: Peaks | None = None
    sustained: tuple[Sustained, ...] = ()
    energy: tuple[Energy, ...] = ()
    diagnosed: dict[int, Diagnosed] = {}
    flexed: dict[int, NewShapeResult] = {}
    outcome: Outcome | None = None
    #: The arms whose workers were built and there when this one ran out of memory before it was
    #: built.
    beside: tuple[str, ...] = ()


class RaceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Arms that raced together at a batch size, and the number of their first round; rounds are counted on over the groups."""

    arms: tuple[str, ...]
    first_round: int


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as far as it has come."""

    plan: Plan | None = None
    #: By arm, its processes in the order they were started.
    processes: dict[str, tuple[ProcessState, ...]] = {}
    #: By batch size, the arms that entered its race, and why the race was closed; of the last
    #: group, where memory allows only groups.
    opened: dict[int, tuple[str, ...]] = {}
    closed: dict[int, str] = {}
    #: By batch size, all groups.
    groups: dict[int, tuple[RaceGroup, ...]] = {}
    #: By number, the arms of each repetition in fresh processes.
    repeats: dict[int, tuple[str, ...]] = {}
    memory_checked: MemoryChecked | None = None
    surveyed: tuple[Surveyed, ...] = ()
    platforms: tuple[Platform, ...] = ()
    finished: bool = False
    #: Place of the last event, and its time.
    seq: int = 0
    at: float = 0.0


def fold(events: Iterable[LoggedEvent], state: RunState | None = None) -> RunState:
    """Return the state after `events`, starting from `state` or from nothing."""
    state = state or RunState()
    for event in events:
        state = msgspec.structs.replace(_apply(state, event), seq=event.seq, at=event.at)
    return state


def _apply(state: RunState, event: LoggedEvent) -> RunState:
    run_event = event.run_event
    match run_event:
        case Spawned(arm=arm):
            return _with_processes(
                state, arm, (*state.processes.get(arm, ()), ProcessState(repeat=run_event.repeat))
            )
        case WorkerReported() | DeviceMemory() | ConditionsRecorded() | Energy() | Ended():
            known = list(state.processes[run_event.arm])
            process = _time_build(_follow(known[run_event.process], run_event), event)
            if isinstance(process.outcome, OutOfMemory) and not process.ready:
                process = msgspec.structs.replace(process, beside=_resident_arms(state))
            known[run_event.process] = process
            return _with_processes(state, run_event.arm, tuple(known))
        case run_event:
            return msgspec.structs.replace(state, **_changes(state, run_event))


def _changes(state: RunState, run_event: RunEvent) -> dict[str, Any]:
    """Return what changes about the run as a whole, by field."""
    match run_event:
        case Planned():
            return {"plan": run_event.plan}
        case RaceOpened():
            return _open(state, run_event)
        case RaceClosed():
            return {"closed": {**state.closed, run_event.batch_size: run_event.reason}}
        case Repeated():
            return {"repeats": {**state.repeats, run_event.repeat: run_event.arms}}
        case MemoryChecked():
            return {"memory_checked": run_event}
        case Surveyed():
            return {"surveyed": (*state.surveyed, run_event)}
        case PlatformKnown():
            return {"platforms": (*state.platforms, run_event.platform)}
        case Finished():
            return {"finished": True}
        case _:
            return {}


def _open(state: RunState, run_event: RaceOpened) -> dict[str, Any]:
    size = run_event.batch_size
    raced = [
        process
        for processes in state.processes.values()
        for process in processes
        if process.repeat == 0
    ]
    rounds = [
        visit.round for process in raced for visit in process.visits if visit.batch_size == size
    ]
    group = RaceGroup(arms=run_event.arms, first_round=max(rounds, default=0) + 1)
    return {
        "opened": {**state.opened, size: run_event.arms},
        "closed": {known: reason for known, reason in state.closed.items() if known != size},
        "groups": {**state.groups, size: (*state.groups.get(size, ()), group)},
    }


def _follow(
    process: ProcessState,
    run_event: WorkerReported | DeviceMemory | ConditionsRecorded | Energy | Ended,
) -> ProcessState:
    match run_event:
        case WorkerReported():
            return msgspec.structs.replace(process, **_heard(process, run_event.said))
        case DeviceMemory():
            return msgspec.structs.replace(process, device_memory=run_event)
        case ConditionsRecorded():
            return msgspec.structs.replace(process, watched=(*process.watched, run_event))
        case Energy():
            return msgspec.structs.replace(process, energy=(*process.energy, run_event))
        case Ended():
            return msgspec.structs.replace(process, outcome=run_event.outcome)


def _resident_arms(state: RunState) -> tuple[str, ...]:
    """Return the arms whose last process is built and has not ended."""
    lasting = {
        arm: processes[-1]
        for arm, processes in state.processes.items()
        if processes and arm != REFERENCE
    }
    return tuple(
        arm for arm, process in lasting.items() if process.ready and process.outcome is None
    )


def _time_build(process: ProcessState, event: LoggedEvent) -> ProcessState:
    """Return the process with the time of a build that goes on or has ended unfinished: of one that is finished the worker tells it."""
    run_event, since = event.run_event, process.building_since
    if isinstance(run_event, Ended) and since is not None:
        return msgspec.structs.replace(
            process, building_since=None, lost_build_seconds=event.at - since
        )
    if isinstance(run_event, WorkerReported) and isinstance(run_event.said, (PhaseStarted, Built)):
        begins = isinstance(run_event.said, PhaseStarted) and run_event.said.phase == "build"
        return msgspec.structs.replace(process, building_since=event.at if begins else None)
    return process


#: Field of `ProcessState` that keeps what was said, by its type: the last one, or one for each
#: batch size.
KEPT: dict[type, str] = {
    Imported: "imported",
    Loaded: "loaded",
    Caches: "caches",
    Engaged: "engaged",
    Recipe: "recipe",
    MemoryRead: "memory",
    Peaks: "peaks",
}
KEPT_BY_BATCH_SIZE: dict[type, str] = {
    Built: "built",
    Checked: "checked",
    WarmedUp: "warm",
    Diagnosed: "diagnosed",
    NewShapeResult: "flexed",
    Latency: "latency",
}


def _heard(process: ProcessState, said: WorkerEvent) -> dict[str, Any]:
    match said:
        case PhaseStarted(phase=phase):
            return {"phase": phase}
        case Ready():
            return {"ready": True}
        case BlockTimed() as visit:
            return {"visits": (*process.visits, visit)}
        case Sustained() as sustained:
            return {"sustained": (*process.sustained, sustained)}
        case Workload(batch_size=size, flops=flops):
            return {
                "workload": {**process.workload, size: flops},
                "demand": {**process.demand, size: said},
            }
        case Built() | Checked() | WarmedUp() | Diagnosed() | NewShapeResult() | Latency():
            field = KEPT_BY_BATCH_SIZE[type(said)]
            return {field: {**getattr(process, field), said.batch_size: said}}
        case _:
            return {KEPT[type(said)]: said}


def _with_processes(state: RunState, arm: str, processes: tuple[ProcessState, ...]) -> RunState:
    return msgspec.structs.replace(state, processes={**state.processes, arm: processes})
