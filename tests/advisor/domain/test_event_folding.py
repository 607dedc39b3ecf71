"""Events of a run and messages of workers: they are decoded, and folded into its state."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import builders
import msgspec
import pytest
from builders import BASELINE, replace

from advisor.domain import run_events
from advisor.domain.event_folding import fold
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.wire import decode, decode_event
from probes.events import (
    Compared,
    Created,
    Event,
    FirstReply,
    MemoryRead,
    PhaseStarted,
    Prepared,
    Ready,
)
from probes.outcome import Failure, Outcome
from probes.shape import Shape

CHECKED = [builders.checked(size) for size in (1, 4)]
MEMORY = MemoryRead(peak_rss_bytes=1, device_reserved_bytes=None)
LAST_MEMORY = replace(MEMORY, peak_rss_bytes=2)
VISITS = builders.visits([0.1, 0.2])
DEVICE = run_events.DeviceMemory(arm="compiled", process=0, peak_bytes=3)


def state_after(*reported: run_events.RunEvent) -> RunState:
    return fold(builders.events(*reported))


def process_after(*worker_events: Event) -> ProcessState:
    (process,) = state_after(
        run_events.WorkerSpawned(arm="compiled", process=0),
        *(
            run_events.WorkerReported(arm="compiled", process=0, worker_event=each)
            for each in worker_events
        ),
    ).processes["compiled"]
    return process


def test_the_first_memory_is_kept_beside_the_last_one_and_every_visit() -> None:
    process = process_after(MEMORY, LAST_MEMORY, *VISITS)
    assert (process.warm_memory, process.memory, process.visits) == (MEMORY, LAST_MEMORY, VISITS)


#: Events of which a state has another trace, or none.
NOT_KEPT = {Created, Compared, FirstReply, PhaseStarted, Prepared, Ready}


@pytest.mark.parametrize("kind", Event.__subclasses__())
def test_a_state_takes_every_kind_of_event(kind: Any) -> None:
    event = kind.__new__(kind)
    vars(event).update(dict.fromkeys(each.name for each in dataclasses.fields(kind)))
    fields = msgspec.structs.asdict(process_after(event)).values()
    kept = [each.get(None) if isinstance(each, dict) else each for each in fields]
    assert (event in kept or (event,) in kept) == (kind not in NOT_KEPT)


def test_a_repeated_event_replaces_the_first() -> None:
    wrong = builders.checked(1, accuracy_class="incorrect")
    process = process_after(
        CHECKED[0],
        CHECKED[1],
        wrong,
        PhaseStarted(phase="warmup", shape=Shape(1)),
        PhaseStarted(phase="measure", shape=None),
    )
    assert process.checked == {Shape(1): wrong, Shape(4): CHECKED[1]}
    assert process.phase == "measure"


def test_processes_of_an_arm_have_separate_states() -> None:
    first, second = (run_events.WorkerSpawned(arm="compiled", process=number) for number in (0, 1))
    state = state_after(
        first,
        second,
        run_events.WorkerReported(arm="compiled", process=1, worker_event=Ready()),
        run_events.WorkerEnded(arm="compiled", process=0, outcome=Outcome()),
        run_events.WorkerSpawned(arm=BASELINE, process=0),
        replace(DEVICE, arm=BASELINE),
    )
    ended, ready = state.processes["compiled"]
    assert (ended, ready) == (ProcessState(outcome=Outcome()), ProcessState(ready=True))
    (baseline,) = state.processes[BASELINE]
    assert baseline.device_memory is not None


def test_a_second_group_opens_a_closed_race_again() -> None:
    closed = run_events.RaceClosed(shape=Shape(4), reason="a test", cause="out-of-time")
    state = state_after(
        run_events.ArmsPlanned(plan=builders.plan("compiled", "other")),
        run_events.RaceOpened(shape=Shape(1), arms=(BASELINE, "compiled")),
        run_events.RaceOpened(shape=Shape(4), arms=(BASELINE,)),
        closed,
        run_events.RaceClosed(shape=Shape(1), reason="a test", cause="decided"),
        run_events.RaceOpened(shape=Shape(1), arms=(BASELINE, "other")),
    )
    assert state.last_groups == {Shape(1): (BASELINE, "other"), Shape(4): (BASELINE,)}
    assert state.closed == {Shape(4): closed}
    raced = [group.arms for group in state.groups[Shape(1)]]
    assert raced == [(BASELINE, "compiled"), (BASELINE, "other")]


def test_resuming_a_run_changes_only_number_and_time_and_no_event_is_ignored() -> None:
    before = state_after(run_events.ArmsPlanned(plan=builders.plan()))
    state = fold([run_events.LoggedEvent(seq=2, at=9.0, run_event=run_events.Resumed())], before)
    assert state == replace(before, seq=2, at=9.0, resumed_at=9.0)
    with pytest.raises(TypeError, match="_RunEvent"):  # a kind without a stated change
        state_after(run_events._RunEvent())


VISIT = {
    "event": "visited",
    "shape": {"batch_size": 1, "input_tokens": None, "output_tokens": None},
    "round": 1,
    "seconds": [0.5, 0.25],
    "warmup_seconds": [0.5],
    "streamed_seconds": None,
}
REFUSED = {"status": "model-refused", "phase": "open", "reason": "r"}
LOAD = run_events.LoadMeasured(
    arm="a", process=0, rate=1.0, seconds=1.0, requests=(), discarded=False
)


def encoded(fields: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps({**fields, **changes}).encode()


def logged(run_event: object) -> run_events.LoggedEvent:
    """Decode an event of a run that has the fields of `run_event`."""
    line = msgspec.json.encode({"seq": 1, "at": 0.0, "run_event": run_event})
    return msgspec.json.decode(line, type=run_events.LoggedEvent, dec_hook=decode_event)


IMPOSSIBLE = [
    ("seconds", []),
    ("seconds", [0.0]),
    ("seconds", [0.5, -0.25]),
    ("seconds", [1e10]),
    ("seconds", ["fast"]),
    ("seconds", None),
    *(("shape", {"batch_size": size}) for size in (0, 1.5, 10**400)),
    ("shape", {"batch_size": 1, "input_tokens": 0}),
    ("shape", 1),
    ("round", -1),
    ("streamed_seconds", 0),
]


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_impossible_figures_are_refused_from_workers_and_in_stored_runs(
    name: str, value: object
) -> None:
    with pytest.raises(ValueError, match=r".") as problem:
        decode(encoded(VISIT, **{name: value}), Event)
    names = (name, "visit", *(value if isinstance(value, dict) else ()))
    assert any(word in str(problem.value) for word in names)
    reported = {"event": "worker_reported", "arm": "a", "process": 0}
    logged({**reported, "worker_event": VISIT})
    with pytest.raises(msgspec.ValidationError):
        logged({**reported, "worker_event": {**VISIT, name: value}})


@pytest.mark.parametrize("rate", [-5.0, 0.0])
def test_a_peak_of_the_device_that_is_no_rate_is_refused(rate: float) -> None:
    peaks = {"event": "peaks", "bytes_per_second": 1.0, "operations_per_second": {"float32": rate}}
    with pytest.raises(ValueError, match="operations_per_second"):
        decode(encoded(peaks), Event)


@pytest.mark.parametrize("value", [-1.0, 1e31])
def test_figures_of_the_advisor_in_a_stored_run_have_bounds(value: float) -> None:
    fields = msgspec.to_builtins(LOAD)
    times = dict.fromkeys(("ttft", "seconds", "itl"))
    request = {"at": 0.0, "late": 0.0, "output_tokens": 0, **times}
    logged({**fields, "requests": [request]})
    with pytest.raises(msgspec.ValidationError, match="itl"):
        logged({**fields, "requests": [{**request, "itl": value}]})


@pytest.mark.parametrize("text", [b"1e999", b"NaN", b"Infinity", b"-Infinity"])
def test_numbers_that_are_not_finite_are_refused(text: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode(encoded(VISIT).replace(b"0.25", text), Event)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"event": "sang"}, Event),
        ({"event": "Built"}, Event),
        ({"event": None}, Event),
        ({"event": ["built"]}, Event),
        ({}, Event),
        ([], Event),
        ({"failure": {**REFUSED, "status": "delighted"}}, Outcome),
        ({"failure": {**REFUSED, "phase": "teatime"}}, Outcome),
        ({"failure": {**REFUSED, "missing_module": "x; rm -rf /"}}, Outcome),
        ({"failure": {"status": "unsupported", "phase": "open"}}, Outcome),
    ],
)
def test_unknown_events_and_failures_are_refused(message: object, kind: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(json.dumps(message).encode(), kind)


def test_an_outcome_has_a_failure_or_none() -> None:
    refused = Failure("model-refused", "open", "r", missing_module="timm")
    message = encoded({"failure": {**REFUSED, "missing_module": "timm"}})
    assert decode(message, Outcome) == Outcome(refused)
    assert decode(b'{"failure": null}', Outcome) == Outcome()
