"""What workers report is decoded only with known tags, right types and numbers within bounds."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from advisor.domain.run_events import LoadMeasured, LoggedEvent, WorkerReported
from advisor.domain.wire import decode, decode_event
from probes.wire.events import BlockTimed, Built, Event
from probes.wire.outcome import Failure, Outcome
from probes.wire.shape import Shape

BLOCK = {
    "event": "block_timed",
    "shape": {"batch_size": 1, "input_tokens": None, "output_tokens": None},
    "round": 1,
    "seconds": [0.5, 0.25],
    "enqueue_seconds": 0.1,
    "cpu_seconds": 0.1,
    "warmup_seconds": [0.5],
    "streamed_seconds": None,
    "began": -2.0,
    "ended": -1.0,
}
REFUSED = {"status": "model-refused", "phase": "load", "reason": "r"}
LOAD = LoadMeasured(arm="a", process=0, rate=1.0, seconds=1.0, requests=(), discarded=False)


def encoded(fields: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps({**fields, **changes}).encode()


def logged(run_event: object) -> LoggedEvent:
    """Decode an event of a run that has the fields of `run_event`."""
    line = msgspec.json.encode({"seq": 1, "at": 0.0, "run_event": run_event})
    return msgspec.json.decode(line, type=LoggedEvent, dec_hook=decode_event)


def test_a_block_is_decoded() -> None:
    assert decode(encoded(BLOCK), Event) == BlockTimed(
        shape=Shape(1),
        round=1,
        seconds=(0.5, 0.25),
        enqueue_seconds=0.1,
        cpu_seconds=0.1,
        warmup_seconds=(0.5,),
        streamed_seconds=None,
        began=-2.0,
        ended=-1.0,
    )


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
    ("enqueue_seconds", 1e31),
    ("streamed_seconds", 0),
    ("began", "noon"),
]


def value_names(value: object) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, dict) else ()


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_impossible_figures_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=r".") as problem:
        decode(encoded(BLOCK, **{name: value}), Event)
    assert any(word in str(problem.value) for word in (name, "block", *value_names(value)))


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_impossible_figures_of_a_stored_run_are_refused(name: str, value: object) -> None:
    reported = {"event": "worker_reported", "arm": "a", "process": 0}
    logged({**reported, "worker_event": BLOCK})
    with pytest.raises(msgspec.ValidationError):
        logged({**reported, "worker_event": {**BLOCK, name: value}})


@pytest.mark.parametrize("value", [-1.0, 1e31])
def test_figures_of_the_advisor_in_a_stored_run_have_bounds(value: float) -> None:
    fields = msgspec.to_builtins(LOAD)
    request = {
        "at": 0.0,
        "late": 0.0,
        "ttft": None,
        "seconds": None,
        "itl": None,
        "output_tokens": 0,
    }
    logged({**fields, "requests": [request]})
    with pytest.raises(msgspec.ValidationError, match="itl"):
        logged({**fields, "requests": [{**request, "itl": value}]})


@pytest.mark.parametrize("text", [b"1e999", b"NaN", b"Infinity", b"-Infinity"])
def test_numbers_that_are_not_finite_are_refused(text: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode(encoded(BLOCK).replace(b"0.25", text), Event)


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
        ({"failure": {"status": "unsupported", "phase": "load"}}, Outcome),
    ],
)
def test_unknown_events_and_failures_are_refused(message: object, kind: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(json.dumps(message).encode(), kind)


def test_an_outcome_has_a_failure_or_none() -> None:
    refused = Failure("model-refused", "load", "r", missing_module="timm")
    message = encoded({"failure": {**REFUSED, "missing_module": "timm"}})
    assert decode(message, Outcome) == Outcome(refused)
    assert decode(b'{"failure": null}', Outcome) == Outcome()


def test_an_event_of_a_run_has_the_names_of_the_code() -> None:
    reported = WorkerReported(arm="a", process=0, worker_event=Built(Shape(1), 2.0, 3.0))
    line = msgspec.json.encode(LoggedEvent(seq=1, at=0.5, run_event=reported))
    assert json.loads(line) == {
        "seq": 1,
        "at": 0.5,
        "run_event": {
            "event": "worker_reported",
            "arm": "a",
            "process": 0,
            "worker_event": {
                "shape": {"batch_size": 1, "input_tokens": None, "output_tokens": None},
                "build_seconds": 2.0,
                "first_call_seconds": 3.0,
                "event": "built",
            },
        },
    }
