"""A stored run made by hand: its figures are the same every day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import builders
import msgspec

from advisor.domain.outcome import Completed, Crashed
from advisor.domain.plan import REFERENCE
from advisor.domain.question import Transformers
from advisor.domain.run_events import (
    Ended,
    Finished,
    LoggedEvent,
    Planned,
    RaceClosed,
    RaceOpened,
    Spawned,
    WorkerReported,
)
from advisor.domain.run_state import ProcessState
from advisor.domain.worker_events import Latency, Loaded, PhaseStarted, Ready, Workload
from advisor.store import Run, Store

SECONDS = {
    builders.BASELINE: 0.0094,
    builders.DUPLICATE: 0.0095,
    "compiled": 0.0041,
    "exported": 0.0039,
}
ROUNDS = 6
LOADED = Loaded(
    seconds=1.0,
    parameters=500,
    parameter_bytes=1000,
    weights="seeded random",
    unit="tokens",
    units_per_sample=32,
)
DEMAND = Workload(
    batch_size=1, flops=41_000, moved_bytes=40_000, step_bytes=1_500, cache_bytes=256 << 10
)


def latency_of(seconds: float) -> Latency:
    """Return the times of a call for all tokens, a tenth of which passes until the first one."""
    return Latency(
        batch_size=1,
        output_tokens=32,
        first_token_seconds=(seconds / 10,) * 3,
        whole_seconds=(seconds,) * 3,
    )


def said(arm: str, process: ProcessState) -> list[WorkerReported]:
    words: list[Any] = [
        PhaseStarted(phase="import", batch_size=None),
        process.imported,
        PhaseStarted(phase="load", batch_size=None),
        process.loaded,
    ]
    for size in process.built:
        words += [
            PhaseStarted(phase="build", batch_size=size),
            process.built[size],
            process.checked[size],
            process.warm[size],
        ]
        words += [process.latency.get(size)]
    return [
        WorkerReported(arm=arm, process=0, said=word)
        for word in [*words, process.engaged, process.memory, Ready()]
        if word is not None
    ]


def make_run(
    store: Store,
    *,
    finished: bool,
    seconds_of: Mapping[str, float] = SECONDS,
    generates: bool = False,
    **changes: Any,
) -> Run:
    """Return a run of four arms, one of which crashed; its figures are set by hand, and its header has these changes."""
    workflows = [
        builders.workflow(name, declared=builders.declared(lines_changed=lines))
        for name, lines in (("compiled", 1), ("exported", 12))
    ]
    model = (
        {"model": Transformers(name="demo/llama", weights="random"), "task": "generate"}
        if generates
        else {}
    )
    header = builders.header(
        question=builders.question(batch_sizes=(1,), **model),
        catalogue=builders.catalogue(*workflows, builders.workflow("broken")),
    )
    run = store.create(
        msgspec.structs.replace(
            header, **{"run_id": f"20261121-12000{int(finished)}-0000", **changes}
        )
    )
    run_events: list[object] = [
        Planned(
            plan=builders.plan("compiled", "exported", "broken", excluded=[builders.excluded()])
        )
    ]
    if generates:
        run_events += [
            Spawned(arm=REFERENCE, process=0),
            WorkerReported(arm=REFERENCE, process=0, said=DEMAND),
        ]
    for arm, seconds in seconds_of.items():
        own = {"loaded": LOADED, "latency": {1: latency_of(seconds)}} if generates else {}
        run_events += [
            Spawned(arm=arm, process=0),
            *said(arm, builders.process(*builders.visits([seconds]), **own)),
        ]
    crash = Crashed(
        phase="build",
        signal="SIGSEGV",
        reason="its process was ended by SIGSEGV; its log ends: [/ oh",
        fix="update it",
    )
    run_events += [Spawned(arm="broken", process=0), Ended(arm="broken", process=0, outcome=crash)]
    run_events.append(RaceOpened(batch_size=1, arms=tuple(seconds_of)))
    for number in range(1, ROUNDS + 1 if finished else 4):
        for place, (arm, seconds) in enumerate(seconds_of.items()):
            (visit,) = builders.visits(
                [seconds * (1 + 0.004 * ((number + place) % 3))], first_round=number
            )
            run_events.append(WorkerReported(arm=arm, process=0, said=visit))
    if finished:
        run_events.append(RaceClosed(batch_size=1, reason="the verdict stands: PROVEN"))
        run_events += [Ended(arm=arm, process=0, outcome=Completed()) for arm in seconds_of]
        run_events.append(Finished())
    with run.writer() as writer:
        for number, run_event in enumerate(run_events, start=1):
            writer.append(LoggedEvent(seq=number, at=number / 2, run_event=run_event))  # type: ignore[arg-type]
    return run
