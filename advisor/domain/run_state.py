"""The state of a run, folded from its events: the one view that the table, the JSON, the screens and a resumed run share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from advisor.domain.measurement import Platform
from advisor.domain.outcome import Outcome, OutOfMemory
from advisor.domain.plan import REFERENCE, Plan
from advisor.domain.run_events import (
    DeviceMemory,
    Ended,
    Energy,
    Event,
    Finished,
    Happening,
    Heard,
    MemoryChecked,
    Planned,
    PlatformKnown,
    RaceClosed,
    RaceOpened,
    Repeated,
    Spawned,
    Surveyed,
    Watched,
)
from advisor.domain.worker_events import (
    Built,
    Caches,
    Checked,
    Diagnosed,
    Engaged,
    Entered,
    Flexed,
    Imported,
    Latency,
    Loaded,
    MemoryRead,
    Peaks,
    Phase,
    Ready,
    Recipe,
    Said,
    Sustained,
    Visited,
    Warm,
    Workload,
)


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process, as far as it has come."""

    #: 0 in the race itself, else the number of its repetition.
    repeat: int = 0
    phase: Phase = "start"
    #: When the build that goes on began, in seconds of the run; and what the one took in which the process ended.
    building_since: float | None = None
    lost_build_seconds: float = 0.0
    imported: Imported | None = None
    loaded: Loaded | None = None
    built: dict[int, Built] = {}
    checked: dict[int, Checked] = {}
    caches: Caches | None = None
    engaged: Engaged | None = None
    recipe: Recipe | None = None
    warm: dict[int, Warm] = {}
    memory: MemoryRead | None = None
    device_memory: DeviceMemory | None = None
    ready: bool = False
    visits: tuple[Visited, ...] = ()
    watched: tuple[Watched, ...] = ()
    workload: dict[int, int | None] = {}
    demand: dict[int, Workload] = {}
    latency: dict[int, Latency] = {}
    peaks: Peaks | None = None
    sustained: tuple[Sustained, ...] = ()
    energy: tuple[Energy, ...] = ()
    diagnosed: dict[int, Diagnosed] = {}
    flexed: dict[int, Flexed] = {}
    outcome: Outcome | None = None
    #: The arms whose workers were built and there when this one ran out of memory before it was built.
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
    #: By batch size, the arms that entered its race, and why the race was closed; of the last group, where memory allows only groups.
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


def fold(events: Iterable[Event], state: RunState | None = None) -> RunState:
    """Return the state after `events`, starting from `state` or from nothing."""
    state = state or RunState()
    for event in events:
        state = msgspec.structs.replace(_apply(state, event), seq=event.seq, at=event.at)
    return state


def _apply(state: RunState, event: Event) -> RunState:
    happening = event.happening
    match happening:
        case Spawned(arm=arm):
            return _with_processes(state, arm, (*state.processes.get(arm, ()), ProcessState(repeat=happening.repeat)))
        case Heard() | DeviceMemory() | Watched() | Energy() | Ended():
            known = list(state.processes[happening.arm])
            process = _time_build(_follow(known[happening.process], happening), event)
            if isinstance(process.outcome, OutOfMemory) and not process.ready:
                process = msgspec.structs.replace(process, beside=_resident_arms(state))
            known[happening.process] = process
            return _with_processes(state, happening.arm, tuple(known))
        case happening:
            return msgspec.structs.replace(state, **_changes(state, happening))


def _changes(state: RunState, happening: Happening) -> dict[str, Any]:
    """Return what changes about the run as a whole, by field."""
    match happening:
        case Planned():
            return {"plan": happening.plan}
        case RaceOpened():
            return _open(state, happening)
        case RaceClosed():
            return {"closed": {**state.closed, happening.batch_size: happening.reason}}
        case Repeated():
            return {"repeats": {**state.repeats, happening.repeat: happening.arms}}
        case MemoryChecked():
            return {"memory_checked": happening}
        case Surveyed():
            return {"surveyed": (*state.surveyed, happening)}
        case PlatformKnown():
            return {"platforms": (*state.platforms, happening.platform)}
        case Finished():
            return {"finished": True}
        case _:
            return {}


def _open(state: RunState, happening: RaceOpened) -> dict[str, Any]:
    size = happening.batch_size
    raced = [process for processes in state.processes.values() for process in processes if process.repeat == 0]
    rounds = [visit.round for process in raced for visit in process.visits if visit.batch_size == size]
    group = RaceGroup(arms=happening.arms, first_round=max(rounds, default=0) + 1)
    return {
        "opened": {**state.opened, size: happening.arms},
        "closed": {known: reason for known, reason in state.closed.items() if known != size},
        "groups": {**state.groups, size: (*state.groups.get(size, ()), group)},
    }


def _follow(process: ProcessState, happening: Heard | DeviceMemory | Watched | Energy | Ended) -> ProcessState:
    match happening:
        case Heard():
            return msgspec.structs.replace(process, **_heard(process, happening.said))
        case DeviceMemory():
            return msgspec.structs.replace(process, device_memory=happening)
        case Watched():
            return msgspec.structs.replace(process, watched=(*process.watched, happening))
        case Energy():
            return msgspec.structs.replace(process, energy=(*process.energy, happening))
        case Ended():
            return msgspec.structs.replace(process, outcome=happening.outcome)


def _resident_arms(state: RunState) -> tuple[str, ...]:
    """Return the arms whose last process is built and has not ended."""
    lasting = {arm: processes[-1] for arm, processes in state.processes.items() if processes and arm != REFERENCE}
    return tuple(arm for arm, process in lasting.items() if process.ready and process.outcome is None)


def _time_build(process: ProcessState, event: Event) -> ProcessState:
    """Return the process with the time of a build that goes on or has ended unfinished: of one that is finished the worker tells it."""
    happening, since = event.happening, process.building_since
    if isinstance(happening, Ended) and since is not None:
        return msgspec.structs.replace(process, building_since=None, lost_build_seconds=event.at - since)
    if isinstance(happening, Heard) and isinstance(happening.said, (Entered, Built)):
        begins = isinstance(happening.said, Entered) and happening.said.phase == "build"
        return msgspec.structs.replace(process, building_since=event.at if begins else None)
    return process


#: Field of `ProcessState` that keeps what was said, by its type: the last one, or one for each batch size.
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
    Warm: "warm",
    Diagnosed: "diagnosed",
    Flexed: "flexed",
    Latency: "latency",
}


def _heard(process: ProcessState, said: Said) -> dict[str, Any]:
    match said:
        case Entered(phase=phase):
            return {"phase": phase}
        case Ready():
            return {"ready": True}
        case Visited() as visit:
            return {"visits": (*process.visits, visit)}
        case Sustained() as sustained:
            return {"sustained": (*process.sustained, sustained)}
        case Workload(batch_size=size, flops=flops):
            return {"workload": {**process.workload, size: flops}, "demand": {**process.demand, size: said}}
        case Built() | Checked() | Warm() | Diagnosed() | Flexed() | Latency():
            field = KEPT_BY_BATCH_SIZE[type(said)]
            return {field: {**getattr(process, field), said.batch_size: said}}
        case _:
            return {KEPT[type(said)]: said}


def _with_processes(state: RunState, arm: str, processes: tuple[ProcessState, ...]) -> RunState:
    return msgspec.structs.replace(state, processes={**state.processes, arm: processes})
