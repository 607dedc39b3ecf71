"""Fold the events of a worker process into its state."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.domain.run_events import (
    BuildStarted,
    ConditionsRecorded,
    DeviceMemory,
    EnergyMeasured,
    LoadMeasured,
    LoggedEvent,
    WorkerEnded,
    WorkerReported,
)
from advisor.domain.run_state import ProcessState
from probes.wire.checks import Checked, TextScores, UserMetric
from probes.wire.events import (
    BlockTimed,
    Built,
    Caches,
    ClosedLoop,
    Diagnosed,
    Engagement,
    Event,
    Imported,
    Loaded,
    MemoryRead,
    NewShapeResult,
    Peaks,
    PhaseStarted,
    Prepared,
    Ready,
    RecipeFacts,
    Serving,
    Sustained,
    TextsSampled,
    WarmedUp,
    Workload,
)


def update_process(
    process: ProcessState,
    run_event: BuildStarted
    | WorkerReported
    | DeviceMemory
    | ConditionsRecorded
    | EnergyMeasured
    | LoadMeasured
    | WorkerEnded,
) -> ProcessState:
    """Return the state of the process after one of its events."""
    match run_event:
        case BuildStarted():
            return msgspec.structs.replace(process, build_started=run_event)
        case WorkerReported():
            return msgspec.structs.replace(
                process, **_process_changes(process, run_event.worker_event)
            )
        case DeviceMemory():
            return msgspec.structs.replace(process, device_memory=run_event)
        case ConditionsRecorded():
            return msgspec.structs.replace(
                process, visit_conditions=(*process.visit_conditions, run_event)
            )
        case EnergyMeasured():
            return msgspec.structs.replace(process, energy=(*process.energy, run_event))
        case LoadMeasured():
            return msgspec.structs.replace(process, load_blocks=(*process.load_blocks, run_event))
        case WorkerEnded():
            return msgspec.structs.replace(process, outcome=run_event.outcome)


def time_build(process: ProcessState, event: LoggedEvent) -> ProcessState:
    """Return the process with the times of unfinished builds; `Built` has the others."""
    run_event, since = event.run_event, process.building_since
    if isinstance(run_event, WorkerEnded) and since is not None:
        return msgspec.structs.replace(
            process, building_since=None, lost_build_seconds=event.at - since
        )
    if isinstance(run_event, WorkerReported) and isinstance(
        run_event.worker_event, (PhaseStarted, Built)
    ):
        begins = (
            isinstance(run_event.worker_event, PhaseStarted)
            and run_event.worker_event.phase == "build"
        )
        return msgspec.structs.replace(process, building_since=event.at if begins else None)
    return process


#: By type of worker event, the field of `ProcessState` that keeps the last one.
LAST_EVENT_FIELDS: dict[type, str] = {
    Imported: "imported",
    Loaded: "loaded",
    Caches: "caches",
    Engagement: "engaged",
    TextScores: "text_scores",
    UserMetric: "user_metric",
    RecipeFacts: "recipe_facts",
    Serving: "serving",
    Peaks: "peaks",
}
#: By type of worker event, the field of `ProcessState` that keeps all of them.
SEQUENCE_FIELDS: dict[type, str] = {
    BlockTimed: "visits",
    Sustained: "sustained",
    ClosedLoop: "closed_loops",
    TextsSampled: "texts_sampled",
}
#: By type of worker event, the field of `ProcessState` that keeps the last one of each batch size.
SHAPE_FIELDS: dict[type, str] = {
    Built: "built",
    Checked: "checked",
    WarmedUp: "warmed_up",
    Diagnosed: "diagnosed",
    NewShapeResult: "new_shape_results",
    Workload: "workloads",
}


def _process_changes(process: ProcessState, worker_event: Event) -> dict[str, Any]:
    """Return the changed fields of the process."""
    match worker_event:
        case PhaseStarted(phase="new-shapes") as started:
            return {"phase": "new-shapes", "new_shape_started": started}
        case PhaseStarted(phase=phase):
            return {"phase": phase}
        case Ready():
            return {"ready": True}
        case Prepared():
            return {}
        case MemoryRead():
            return {"warm_memory": process.warm_memory or worker_event, "memory": worker_event}
        case BlockTimed() | Sustained() | ClosedLoop() | TextsSampled():
            field = SEQUENCE_FIELDS[type(worker_event)]
            return {field: (*getattr(process, field), worker_event)}
        case Built() | Checked() | WarmedUp() | Diagnosed() | NewShapeResult() | Workload():
            field = SHAPE_FIELDS[type(worker_event)]
            by_shape = getattr(process, field)
            return {field: {**by_shape, worker_event.shape: worker_event}}
        case _:
            return {LAST_EVENT_FIELDS[type(worker_event)]: worker_event}
