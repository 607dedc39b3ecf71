"""Tests of decoding events and outcomes of workers."""

from __future__ import annotations

import json

import msgspec
import pytest

from advisor.domain.outcome import Outcome
from advisor.domain.worker_events import BlockTimed, WorkerEvent

VISIT = {
    "event": "visited",
    "batch_size": 1,
    "round": 1,
    "seconds": [0.5, 0.25],
    "lead_calls": 1,
    "cpu_seconds": 0.1,
}


def test_a_visit_is_decoded() -> None:
    assert msgspec.json.decode(json.dumps(VISIT), type=WorkerEvent) == BlockTimed(
        batch_size=1, round=1, seconds=(0.5, 0.25), warmup_calls=1, cpu_seconds=0.1
    )


@pytest.mark.parametrize("seconds", [[], [0.0], [0.5, -0.25], ["fast"], None])
def test_impossible_seconds_are_refused(seconds: object) -> None:
    with pytest.raises(msgspec.ValidationError, match="seconds"):
        msgspec.json.decode(json.dumps({**VISIT, "seconds": seconds}), type=WorkerEvent)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"event": "sang"}, WorkerEvent),
        ({"status": "delighted"}, Outcome),
        ({}, WorkerEvent),
        ({}, Outcome),
    ],
)
def test_unknown_events_and_outcomes_are_refused(message: dict[str, str], kind: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(message, kind)
