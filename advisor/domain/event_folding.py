"""Fold the events of a run into its state."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from advisor.domain.plan import REFERENCE, Plan
from advisor.domain.run_events import (
    ArmsAdded,
    BuildStarted,
    ConditionsRecorded,
    DeviceMemory,
    EnergyMeasured,
    Finished,
    LoadMeasured,
    LoggedEvent,
    MemoryChecked,
    OtherPlatformFound,
    Planned,
    QuietChecked,
    RaceClosed,
    RaceOpened,
    RepetitionStarted,
    Resumed,
    RunEvent,
    StartMeasured,
    VariantMeasured,
    WorkerEnded,
    WorkerReported,
    WorkerSpawned,
)
from advisor.domain.run_state import ProcessState, RaceGroup, RunState
from probes.wire.events import (
    Built,
    Compared,
    Created,
    FirstReply,
    MemoryRead,
    PhaseStarted,
    Prepared,
    Ready,
)

#: Events of one worker process.
ProcessEvent: TypeAlias = (
    BuildStarted
    | WorkerReported
    | DeviceMemory
    | ConditionsRecorded
    | EnergyMeasured
    | LoadMeasured
    | WorkerEnded
)


def fold(events: Iterable[LoggedEvent], state: RunState | None = None) -> RunState:
    """Return the state after `events`, starting from `state` or from an empty state."""
    state = state or RunState()
    for event in events:
        state = msgspec.structs.replace(_apply(state, event), seq=event.seq, at=event.at)
    return state


def _apply(state: RunState, event: LoggedEvent) -> RunState:
    run_event = event.run_event
    if isinstance(run_event, ProcessEvent):
        processes = list(state.processes[run_event.arm])
        process = _update_process(processes[run_event.process], run_event)
        process = _time_build(process, event)
        if process.failed_with("out-of-memory") and not process.ready:
            process = msgspec.structs.replace(
                process, residents_at_oom=_loaded_arms(state, run_event.arm)
            )
        processes[run_event.process] = process
        return _with_processes(state, run_event.arm, tuple(processes))
    match run_event:
        case WorkerSpawned(arm=arm):
            return _with_processes(
                state, arm, (*state.processes.get(arm, ()), ProcessState(repeat=run_event.repeat))
            )
        case Resumed():
            known = {arm: _mark_lost(processes) for arm, processes in state.processes.items()}
            return msgspec.structs.replace(
                state,
                processes=known,
                finished=False,
                resumed_at=event.at,
                measured_on=state.measured_on + state.finished,
            )
        case RaceOpened():
            return msgspec.structs.replace(state, **_open_group(state, run_event))
        case VariantMeasured(arm=arm, variant=variant):
            others = [each for each in state.variants.get(arm, ()) if each.name != variant.name]
            variants = {**state.variants, arm: (*others, variant)}
            return msgspec.structs.replace(state, variants=variants)
        case run_event:
            return msgspec.structs.replace(state, **_run_changes(state, run_event))


def _run_changes(state: RunState, run_event: RunEvent) -> dict[str, Any]:
    """Return the changed fields of the run."""
    match run_event:
        case Planned() | ArmsAdded():
            return {"plan": _plan_after(state.plan, run_event)}
        case RaceClosed():
            return {"closed": {**state.closed, run_event.shape: run_event}}
        case RepetitionStarted():
            return {"repeats": {**state.repeats, run_event.repeat: run_event.arms}}
        case QuietChecked():
            return {"quiet_check": run_event.check}
        case MemoryChecked():
            return {"memory_checked": run_event}
        case StartMeasured(arm=arm, start=start):
            others = [each for each in state.starts.get(arm, ()) if each.way != start.way]
            return {"starts": {**state.starts, arm: (*others, start)}}
        case OtherPlatformFound():
            return {"platforms": (*state.platforms, run_event.platform)}
        case Finished():
            return {"finished": True}
        case _:
            return {}


def _mark_lost(processes: tuple[ProcessState, ...]) -> tuple[ProcessState, ...]:
    """Return the processes; the run stopped during those without an outcome."""
    return tuple(msgspec.structs.replace(each, is_lost=each.outcome is None) for each in processes)


def _plan_after(plan: Plan, run_event: Planned | ArmsAdded) -> Plan:
    if isinstance(run_event, Planned):
        return run_event.plan
    if not plan.arms:
        message = "arms are added to a run without a plan"
        raise ValueError(message)
    return msgspec.structs.replace(plan, arms=(*plan.arms, *run_event.added))


def _open_group(state: RunState, run_event: RaceOpened) -> dict[str, Any]:
    shape = run_event.shape
    if state.plan.baseline.id not in run_event.arms:
        message = f"the baseline is not among the arms of the race at {shape.description}"
        raise ValueError(message)
    raced = [
        process
        for processes in state.processes.values()
        for process in processes
        if process.repeat == 0
    ]
    rounds = [visit.round for process in raced for visit in process.visits if visit.shape == shape]
    group = RaceGroup(arms=run_event.arms, first_round=max(rounds, default=0) + 1)
    return {
        "closed": {other: closed for other, closed in state.closed.items() if other != shape},
        "groups": {**state.groups, shape: (*state.groups.get(shape, ()), group)},
    }


def _loaded_arms(state: RunState, except_arm: str) -> tuple[str, ...]:
    """Return the other arms whose last process holds the model and has not ended."""
    last = {
        arm: processes[-1]
        for arm, processes in state.processes.items()
        if processes and arm not in {REFERENCE, except_arm}
    }
    return tuple(
        arm
        for arm, process in last.items()
        if (process.ready or process.opened) and process.outcome is None
    )


def _with_processes(state: RunState, arm: str, processes: tuple[ProcessState, ...]) -> RunState:
    return msgspec.structs.replace(state, processes={**state.processes, arm: processes})


def _time_build(process: ProcessState, event: LoggedEvent) -> ProcessState:
    """Return the process with the start of the build that is running."""
    match event.run_event:
        case WorkerReported(worker_event=PhaseStarted(phase="build")):
            return msgspec.structs.replace(process, building_since=event.at)
        case WorkerReported(worker_event=PhaseStarted() | Built()):
            return msgspec.structs.replace(process, building_since=None)
        case _:
            return process


def _kept_type(hint: object) -> object:
    """Return `Built` of `Built | None`, `tuple[Built, ...]` and `dict[Shape, Built]`."""
    arguments = typing.get_args(hint) or (None,)
    return arguments[-1 if typing.get_origin(hint) is dict else 0]


#: By type of event, the field of `ProcessState` that keeps it: its type says whether that is the
#: last event, all of them, or the last one of each shape.
FIELDS: dict[object, str] = {
    _kept_type(hint): name for name, hint in typing.get_type_hints(ProcessState).items()
}


def _update_process(process: ProcessState, run_event: ProcessEvent) -> ProcessState:
    """Return the state of the process after one of its events, or of those of its worker."""
    event = run_event.worker_event if isinstance(run_event, WorkerReported) else run_event
    changes: dict[str, Any]
    match event:
        case WorkerEnded(outcome=outcome):
            changes = {"outcome": outcome}
        case PhaseStarted(phase="new-shapes"):
            changes = {"phase": "new-shapes", "new_shape_started": event}
        case PhaseStarted(phase=phase):
            changes = {"phase": phase}
        case Ready():
            changes = {"ready": True}
        case Created() | Prepared() | FirstReply() | Compared():
            changes = {}
        case MemoryRead():
            changes = {"warm_memory": process.warm_memory or event, "memory": event}
        case _:
            changes = _keep(process, event)
    return msgspec.structs.replace(process, **changes)


def _keep(process: ProcessState, event: Any) -> dict[str, Any]:  # noqa: ANN401 - each has a field
    field = FIELDS[type(event)]
    kept = getattr(process, field)
    if isinstance(kept, tuple):
        return {field: (*kept, event)}
    return {field: {**kept, event.shape: event} if isinstance(kept, dict) else event}
