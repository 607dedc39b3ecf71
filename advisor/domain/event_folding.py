"""Fold the events of a run into its state."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from advisor.domain import run_events
from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import ProcessState, RaceGroup, RunState
from probes import events


def fold(logged: Iterable[run_events.LoggedEvent], state: RunState | None = None) -> RunState:
    state = state or RunState()
    for event in logged:
        # What is tried on the code of a finished run is no part of its time.
        is_later = isinstance(event.run_event, run_events.VariantMeasured)
        changes = {"at": state.at if is_later else event.at, **_run_changes(state, event)}
        state = msgspec.structs.replace(state, **changes, seq=event.seq)
    return state


def fold_run(logged: Sequence[run_events.LoggedEvent]) -> RunState:
    """Fold all events of a run; raise `LookupError` or `ValueError` if they are not all."""
    is_plan = [isinstance(event.run_event, run_events.ArmsPlanned) for event in logged]
    numbers = [event.seq for event in logged]
    if numbers != list(range(1, len(logged) + 1)) or is_plan[:1] != [True] or any(is_plan[1:]):
        raise ValueError("they are not the events of one run that begin with its plan")
    return fold(logged)


def _run_changes(state: RunState, event: run_events.LoggedEvent) -> dict[str, Any]:
    run_event = event.run_event
    match run_event:
        case run_events.ArmsPlanned(plan=plan):
            return {"plan": plan}
        case run_events.ArmsAdded(added=added):
            return {"plan": msgspec.structs.replace(state.plan, arms=(*state.plan.arms, *added))}
        case run_events.WorkerSpawned(arm=arm, repeat=repeat):
            processes = (*state.processes.get(arm, ()), ProcessState(repeat=repeat))
            return {"processes": {**state.processes, arm: processes}}
        case run_events.ProcessEvent(arm=arm):
            processes = _processes_after(state, run_event, event.at)
            return {"processes": {**state.processes, arm: processes}}
        case run_events.Resumed():
            return {
                # The run stopped during those without an outcome.
                "processes": {
                    arm: tuple(
                        msgspec.structs.replace(each, is_lost=each.outcome is None)
                        for each in processes
                    )
                    for arm, processes in state.processes.items()
                },
                "resumed_at": event.at,
                # A run that has finished keeps its answer, however far the next measurements come.
                "times_remeasured": state.times_remeasured + state.finished,
            }
        case run_events.RaceOpened():
            return _open_group(state, run_event)
        case _:
            return _found_changes(state, run_event)


def _found_changes(state: RunState, run_event: run_events.RunEvent) -> dict[str, Any]:
    """Return the changed fields after an event that is of no process, plan or race."""
    match run_event:
        case run_events.RepetitionStarted():
            return {"repeats": {**state.repeats, run_event.repeat: run_event.arms}}
        case run_events.QuietChecked():
            return {"quiet_check": run_event.check}
        case run_events.MemoryChecked() | run_events.RaceClosed():
            return _keep(state, run_event)
        case run_events.StartMeasured(arm=arm, start=start):
            starts = [each for each in state.starts.get(arm, ()) if each.way != start.way]
            return {"starts": {**state.starts, arm: (*starts, start)}}
        case run_events.VariantMeasured(arm=arm, variant=variant):
            variants = [each for each in state.variants.get(arm, ()) if each.name != variant.name]
            return {"variants": {**state.variants, arm: (*variants, variant)}}
        case run_events.OtherPlatformFound():
            return {"platforms": (*state.platforms, run_event.platform)}
        case run_events.Finished():
            return {"finished": True}
        case run_events.ProvisionalAnswer():
            return {}
        case _:
            raise TypeError(f"what changes after {type(run_event).__name__} is not stated")


def _processes_after(
    state: RunState, run_event: run_events.ProcessEvent, at: float
) -> tuple[ProcessState, ...]:
    processes = list(state.processes[run_event.arm])
    before = processes[run_event.process]
    process = msgspec.structs.replace(before, **_process_changes(before, run_event, at))
    if process.failed_with("out-of-memory") and not process.ready:
        residents = _opened_arms(state, run_event.arm)
        process = msgspec.structs.replace(process, residents_at_oom=residents)
    processes[run_event.process] = process
    return tuple(processes)


def _open_group(state: RunState, run_event: run_events.RaceOpened) -> dict[str, Any]:
    shape = run_event.shape
    if state.plan.baseline.id not in run_event.arms:
        raise ValueError(f"the baseline is not among the arms of the race at {shape.description}")
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


def _opened_arms(state: RunState, except_arm: str) -> tuple[str, ...]:
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


def _kept_type(hint: object) -> object:
    """Return `Built` of `Built | None`, `tuple[Built, ...]` and `dict[Shape, Built]`."""
    arguments = typing.get_args(hint) or (None,)
    return arguments[-1 if typing.get_origin(hint) is dict else 0]


#: The field of a state that keeps each type of event: the type of the field says whether that is
#: the last event, all of them, or the last one of each shape.
FIELDS: dict[object, str] = {
    _kept_type(hint): name
    for kind in (RunState, ProcessState)
    for name, hint in typing.get_type_hints(kind).items()
}


def _process_changes(
    process: ProcessState, run_event: run_events.ProcessEvent, at: float
) -> dict[str, Any]:
    """Return the changed fields of a process after one of its events, or of those of its worker."""
    event = (
        run_event.worker_event if isinstance(run_event, run_events.WorkerReported) else run_event
    )
    match event:
        case run_events.WorkerEnded(outcome=outcome):
            return {"outcome": outcome}
        case events.PhaseStarted(phase=phase):
            changes = {"phase": phase, "building_since": at if phase == "build" else None}
            return {**changes, "new_shape_started": event} if phase == "new-shapes" else changes
        case events.Ready():
            return {"ready": True}
        case (
            events.Created()
            | events.Prepared()
            | events.FirstReply()
            | events.Compared()
            | run_events.BusyWhileIdle()
        ):
            return {}
        case events.MemoryRead():
            return {"warm_memory": process.warm_memory or event, "memory": event}
        case events.Built():
            return {**_keep(process, event), "building_since": None}
        case _:
            return _keep(process, event)


def _keep(state: ProcessState | RunState, event: Any) -> dict[str, Any]:  # noqa: ANN401 - each has a field
    field = FIELDS[type(event)]
    kept = getattr(state, field)
    if isinstance(kept, tuple):
        return {field: (*kept, event)}
    return {field: {**kept, event.shape: event} if isinstance(kept, dict) else event}
