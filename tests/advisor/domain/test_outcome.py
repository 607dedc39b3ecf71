"""What workers say is checked as it is read: a worker that lies about its times is found out at once."""

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


def test_a_visit_is_read() -> None:
    assert msgspec.json.decode(json.dumps(VISIT), type=WorkerEvent) == BlockTimed(
        batch_size=1, round=1, seconds=(0.5, 0.25), lead_calls=1, cpu_seconds=0.1
    )


@pytest.mark.parametrize("seconds", [[], [0.0], [0.5, -0.25], ["fast"], None])
def test_times_that_no_clock_shows_are_refused(seconds: object) -> None:
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
def test_what_no_worker_can_say_is_refused(message: dict[str, str], kind: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(message, kind)
