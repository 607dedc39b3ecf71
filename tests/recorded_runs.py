"""Stored runs with fixed figures, and with known ids."""

from __future__ import annotations

import datetime as dt
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import builders

from advisor.domain import run_events
from advisor.domain.model import TransformersModel
from advisor.domain.plan import REFERENCE, Arm, Plan
from advisor.domain.run_state import Header, ProcessState, RunState
from advisor.store.runs import Run
from advisor.store.store import Store
from probes.events import Opened, PhaseStarted, Ready, Workload
from probes.outcome import Failure, Outcome
from probes.shape import Shape

SECONDS = {builders.BASELINE: 0.0094, builders.DUPLICATE: 0.0095}
SECONDS |= {"compiled": 0.0041, "exported": 0.0039}
ROUNDS = 6
OPENED = Opened(parameters=500, parameter_bytes=1000, unit="tokens", units_per_sample=32)
WORKLOAD = Workload(
    shape=Shape(1), flops=41_000, moved_bytes=40_000, step_bytes=1_500, cache_bytes=256 << 10
)
WITH_BATCH = Workload(shape=Shape(1), flops=41_000, has_batch=True)
#: Of a forward pass whose inputs have different first dimensions.
WITHOUT_BATCH = Workload(shape=Shape(1), flops=41_000, has_batch=False)
CRASH = Failure(
    "crashed",
    phase="build",
    signal="SIGSEGV",
    reason="its process was ended by SIGSEGV; its log ends: [/ oh",
    fix="update it",
)


class UnstoredRun(Run):
    """A run with this header and these processes of its arms, of which nothing is stored."""

    def __init__(
        self, header: Header, arms: Sequence[Arm], processes: Mapping[str, ProcessState]
    ) -> None:
        super().__init__(pathlib.Path())
        self._header = header
        self._state = builders.run_state(processes, plan=Plan(arms=tuple(arms), excluded=()))

    def header(self) -> Header:
        return self._header

    def state(self) -> RunState:
        return self._state


def reports_of(arm: str, process: ProcessState) -> list[run_events.WorkerReported]:
    """Return the events with which a worker reports the state of its process."""
    worker_events: list[Any] = [
        PhaseStarted(phase="import", shape=None),
        process.imported,
        PhaseStarted(phase="open", shape=None),
        process.opened,
    ]
    for shape in process.built:
        worker_events += [
            PhaseStarted(phase="build", shape=shape),
            process.built[shape],
            process.checked[shape],
            process.warmed_up[shape],
        ]
    return [
        run_events.WorkerReported(arm=arm, process=0, worker_event=each)
        for each in [*worker_events, process.engaged, process.memory, Ready()]
        if each is not None
    ]


def make_run(
    store: Store,
    *,
    finished: bool,
    seconds_of: Mapping[str, float] = SECONDS,
    generates: bool = False,
    workload: Workload | None = None,
    **changes: Any,
) -> Run:
    """Store a run of four arms and one that crashes; keywords change its header.

    `workload` is what the reference worker reports of a forward pass.
    """
    run_id = f"20261121-12000{int(finished)}-0000"
    header = builders.replace(make_header(generates=generates), run_id=run_id)
    run = store.create(builders.replace(header, **changes))
    names = [arm for arm in seconds_of if arm not in {builders.BASELINE, builders.DUPLICATE}]
    plan = builders.plan(*names, "broken", excluded=[builders.excluded()])
    rounds = range(1, ROUNDS + 1 if finished else 4)
    happened: list[run_events.RunEvent] = [
        run_events.ArmsPlanned(plan=plan),
        *start_workers(seconds_of, WORKLOAD if generates else workload, generates=generates),
        run_events.RaceOpened(shape=Shape(1), arms=tuple(seconds_of)),
    ]
    # The times vary by less than one percent. The first token takes a tenth of a call.
    for number, (place, (arm, seconds)) in itertools.product(rounds, enumerate(seconds_of.items())):
        varied = seconds * (1 + 0.004 * ((number + place) % 3))
        (visit,) = builders.visits([varied], first_round=number)
        if generates:
            visit = builders.replace(visit, first_token_seconds=(varied / 10,) * 3)
        happened.append(run_events.WorkerReported(arm=arm, process=0, worker_event=visit))
    if finished:
        happened += [
            run_events.RaceClosed(
                shape=Shape(1), reason="the verdict stands: PROVEN", cause="decided"
            ),
            *(run_events.WorkerEnded(arm=arm, process=0, outcome=Outcome()) for arm in seconds_of),
            run_events.Finished(),
        ]
    with run.writer() as writer:
        for number, run_event in enumerate(happened, start=1):
            writer.append(run_events.LoggedEvent(seq=number, at=number / 2, run_event=run_event))
    return run


def make_header(*, generates: bool) -> Header:
    workflows = [
        builders.workflow(name, declared=builders.declared(lines_changed=lines))
        for name, lines in (("compiled", 1), ("exported", 12))
    ]
    asked: dict[str, Any] = {}
    if generates:
        model = TransformersModel(name="demo/llama", weights="random")
        asked = {"model": model, "task": "generate"}
    return builders.header_of(*workflows, *map(builders.workflow, ("broken", "absent")), **asked)


def start_workers(
    seconds_of: Mapping[str, float], workload: Workload | None, *, generates: bool
) -> Iterator[run_events.RunEvent]:
    """Yield the events until all workers are ready; the worker of `broken` crashes."""
    if workload is not None:
        yield run_events.WorkerSpawned(arm=REFERENCE, process=0)
        yield run_events.WorkerReported(arm=REFERENCE, process=0, worker_event=workload)
    for arm, seconds in seconds_of.items():
        changes = {"opened": OPENED} if generates else {}
        yield run_events.WorkerSpawned(arm=arm, process=0)
        yield from reports_of(arm, builders.process(*builders.visits([seconds]), **changes))
    yield run_events.WorkerSpawned(arm="broken", process=0)
    yield run_events.WorkerEnded(arm="broken", process=0, outcome=Outcome(CRASH))


#: Name of the GPU of `make_gpu_run`.
GPU_NAME = "NVIDIA H100 80GB HBM3"


def make_gpu_run(
    store: Store,
    run_id: str = "20261101-000000-0000",
    *,
    finished: bool = True,
    foreign: bool = False,
    **asked: Any,
) -> Run:
    """Store a run that was measured on a GPU in November 2026; `asked` changes its question."""
    return make_run(
        store,
        finished=finished,
        foreign=foreign,
        run_id=run_id,
        created=dt.datetime(2026, 11, 1, 12, tzinfo=dt.timezone.utc),
        machine=builders.gpu_machine(),
        question=builders.question(**{"device": "cuda", "gpu": "GPU-0000", **asked}),
        seconds_of={**SECONDS, "compiled": 0.0078, "exported": 0.0039},
        catalogue=builders.catalogue(
            *map(builders.workflow, ("compiled", "exported", "broken", "absent"))
        ),
    )


def make_long_run(store: Store) -> Run:
    """Store a run of 16 arms that are from half to five times as fast as the baseline."""
    names = [f"stack-{number:02}-with-a-rather-long-name" for number in range(15)]
    seconds = {name: 0.0094 / (0.5 + number * 0.3) for number, name in enumerate(names)}
    baselines = {name: SECONDS[name] for name in (builders.BASELINE, builders.DUPLICATE)}
    workflows = [
        builders.workflow(name, declared=builders.declared(lines_changed=number))
        for number, name in enumerate(names)
    ]
    return make_run(
        store,
        finished=True,
        run_id="20261121-120002-0016",
        seconds_of={**baselines, **seconds},
        catalogue=builders.catalogue(*workflows, *map(builders.workflow, ("broken", "absent"))),
    )


def damage(run: Run) -> None:
    """Change one byte of a name; the size of the file stays as in the index."""
    file = run.directory / "events.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"compiled"', b'"compile\xff"', 1))


#: Of `make_planned_run`, the oldest first.
IDS = ("20261120-080000-aaaa", "20261121-120000-0000", "20261121-120000-00ff")
HISTORY = list(reversed(IDS))


def planned_header(run_id: str = IDS[0]) -> Header:
    day = dt.datetime.strptime(run_id[:8], "%Y%m%d").replace(tzinfo=dt.timezone.utc)
    return builders.header(run_id=run_id, created=day.replace(hour=12))


def make_planned_run(
    home: pathlib.Path, run_id: str = IDS[0], *events: run_events.LoggedEvent
) -> Run:
    """Store a run with these events, by default a plan alone."""
    run = Store(home).create(planned_header(run_id))
    with run.writer() as writer:
        for event in events or builders.events(
            run_events.ArmsPlanned(plan=builders.plan("compiled"))
        ):
            writer.append(event)
    return run
