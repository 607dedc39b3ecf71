"""A run's state is a fold over its events: taken up anywhere, it is the same."""

from __future__ import annotations

import builders
import msgspec
from builders import BASELINE
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.outcome import Completed, TimedOut
from advisor.domain.run_events import (
    DeviceMemory,
    Ended,
    Finished,
    LoggedEvent,
    Planned,
    RaceClosed,
    RaceOpened,
    Resumed,
    RunEvent,
    Spawned,
    WorkerReported,
)
from advisor.domain.run_state import ProcessState, RunState, fold
from advisor.domain.worker_events import (
    Built,
    Engaged,
    Imported,
    Loaded,
    MemoryRead,
    PhaseStarted,
    Ready,
    WarmedUp,
    WorkerEvent,
    Workload,
)

IMPORTED = Imported(versions={"torch": "2.12.0"}, settings={}, seconds=2.0)
LOADED = Loaded(
    seconds=0.5,
    parameters=1,
    parameter_bytes=4,
    weights="seeded random",
    unit="samples",
    units_per_sample=1,
)
BUILT = [Built(batch_size=size, build_seconds=1.0, first_call_seconds=0.1) for size in (1, 4)]
CHECKED = [builders.checked(size) for size in (1, 4)]
WARM = [
    WarmedUp(batch_size=size, typical_seconds=0.01, warmup_calls=5, calls_per_visit=3)
    for size in (1, 4)
]
ENGAGED = Engaged(share=0.9, proof="a test says so", facts={})
MEMORY = MemoryRead(peak_rss_bytes=1, device_allocated_bytes=None, device_reserved_bytes=None)
VISITS = builders.visits([0.1, 0.2])
DEVICE = DeviceMemory(arm="compiled", process=0, before_bytes=1, peak_bytes=3, resident_bytes=2)


def after(*run_events: RunEvent) -> RunState:
    return fold(builders.events(*run_events))


def told(*said: WorkerEvent) -> ProcessState:
    """Return the state of a process that said this."""
    (process,) = after(
        Spawned(arm="compiled", process=0),
        *(WorkerReported(arm="compiled", process=0, said=each) for each in said),
    ).processes["compiled"]
    return process


def test_before_anything_happens_there_is_nothing() -> None:
    assert fold([]) == RunState()


def test_a_process_that_was_started_has_said_nothing() -> None:
    assert told() == ProcessState()


def test_all_that_a_worker_says_is_kept() -> None:
    flops = [Workload(batch_size=1, flops=None), Workload(batch_size=4, flops=7)]
    process = told(
        PhaseStarted(phase="build", batch_size=4),
        IMPORTED,
        LOADED,
        *BUILT,
        *CHECKED,
        ENGAGED,
        *WARM,
        MEMORY,
        Ready(),
        *VISITS,
        *flops,
    )
    assert process == ProcessState(
        phase="build",
        imported=IMPORTED,
        loaded=LOADED,
        built={1: BUILT[0], 4: BUILT[1]},
        checked={1: CHECKED[0], 4: CHECKED[1]},
        engaged=ENGAGED,
        warm={1: WARM[0], 4: WARM[1]},
        memory=MEMORY,
        ready=True,
        visits=VISITS,
        workload={1: None, 4: 7},
        demand={1: flops[0], 4: flops[1]},
    )


def test_what_is_said_again_counts_as_the_second_time() -> None:
    wrong = builders.checked(1, verdict="wrong")
    process = told(
        CHECKED[0],
        CHECKED[1],
        wrong,
        PhaseStarted(phase="warmup", batch_size=1),
        PhaseStarted(phase="measure", batch_size=None),
    )
    assert process.checked == {1: wrong, 4: CHECKED[1]}
    assert process.phase == "measure"


def test_processes_of_an_arm_are_kept_apart() -> None:
    first, second = (Spawned(arm="compiled", process=number) for number in (0, 1))
    state = after(
        first,
        second,
        WorkerReported(arm="compiled", process=1, said=Ready()),
        Ended(arm="compiled", process=0, outcome=Completed()),
    )
    assert state.processes["compiled"] == (
        ProcessState(outcome=Completed()),
        ProcessState(ready=True),
    )


def test_the_arms_of_a_run_are_kept_apart() -> None:
    state = after(Spawned(arm=BASELINE, process=0), Spawned(arm="compiled", process=0), DEVICE)
    assert state.processes == {
        BASELINE: (ProcessState(),),
        "compiled": (ProcessState(device_memory=DEVICE),),
    }


def test_a_race_is_opened_and_closed_by_its_batch_size() -> None:
    state = after(
        RaceOpened(batch_size=1, arms=(BASELINE, "compiled")),
        RaceOpened(batch_size=4, arms=(BASELINE,)),
        RaceClosed(batch_size=1, reason="done"),
    )
    assert state.opened == {1: (BASELINE, "compiled"), 4: (BASELINE,)}
    assert state.closed == {1: "done"}


def test_taking_a_run_up_again_changes_nothing_but_the_time() -> None:
    before = after(Planned(plan=builders.plan()))
    state = fold([LoggedEvent(seq=2, at=9.0, run_event=Resumed())], before)
    assert state == msgspec.structs.replace(before, seq=2, at=9.0)


def test_a_run_is_finished_when_it_says_so() -> None:
    assert not after(Planned(plan=builders.plan())).finished
    assert after(Planned(plan=builders.plan()), Finished()).finished


COMING_UP: tuple[WorkerEvent, ...] = (IMPORTED, LOADED, *BUILT, *WARM, Ready())
WHOLE = builders.events(
    Planned(plan=builders.plan("compiled")),
    Spawned(arm=BASELINE, process=0),
    Spawned(arm="compiled", process=0),
    *(
        WorkerReported(arm=arm, process=0, said=said)
        for arm in (BASELINE, "compiled")
        for said in COMING_UP
    ),
    RaceOpened(batch_size=1, arms=(BASELINE, "compiled")),
    *(WorkerReported(arm=BASELINE, process=0, said=visit) for visit in VISITS),
    Ended(arm="compiled", process=0, outcome=TimedOut(phase="measure", reason="it hung")),
    RaceClosed(batch_size=1, reason="the verdict stands"),
    Resumed(),
    Spawned(arm="compiled", process=1),
    Finished(),
)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=4).map(sorted))
def test_a_run_that_was_interrupted_anywhere_comes_to_the_same_state(
    interruptions: list[int],
) -> None:
    state: RunState | None = None
    for begin, end in zip([0, *interruptions], [*interruptions, len(WHOLE)], strict=True):
        state = fold(WHOLE[begin:end], state)
    assert state == fold(WHOLE)


def test_folding_leaves_the_state_before_it_as_it_was() -> None:
    before = fold(WHOLE[:5])
    copy = fold(WHOLE[:5])
    fold(WHOLE[5:], before)
    assert before == copy
