"""Scripts that stand for workers, and a supervisor's clock that goes on only when told."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import workers

from advisor.domain.catalogue import Deadlines
from advisor.domain.outcome import Outcome
from advisor.probing.supervisor import Message, Supervisor, Worker

DEADLINES = Deadlines(
    start=10,
    import_=20,
    load=30,
    correctness=50,
    warmup=60,
    visit=70,
    sustain=75,
    diagnose=76,
    done=80,
)
BUILD_SECONDS = 40
#: The same by phase.
SECONDS = {
    "start": 10,
    "import": 20,
    "load": 30,
    "build": 40,
    "correctness": 50,
    "warmup": 60,
    "measure": 70,
    "sustain": 75,
    "diagnose": 76,
    "flex": 40,
    "done": 80,
}
#: How a script that stands for a worker speaks to the advisor.
PRELUDE = """
import json, os, pathlib, signal, subprocess, sys, time

directory = pathlib.Path(sys.argv[1])

def ring():
    os.write(1, b".")

def say(text):
    with (directory / "events.jsonl").open("a") as events:
        events.write(text)
    ring()

def tell(event, **fields):
    say(json.dumps({"event": event, **fields}) + "\\n")

def enter(phase):
    tell("phase", phase=phase, batch_size=None)

def answer(status, **fields):
    beside = directory / "beside"
    beside.write_text(json.dumps({"status": status, **fields}))
    beside.rename(directory / "response.json")
    ring()

def log(text):
    os.write(2, text.encode())

"""
#: Line of a script that waits for a token.
WAIT = "sys.stdin.readline()\n"


class Clock:
    """The advisor's clock."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def start(
    supervisor: Supervisor,
    place: pathlib.Path,
    source: str,
    environment: Mapping[str, str] | None = None,
) -> Worker:
    """Start a script that stands for a worker."""
    script = place / "script.py"
    script.write_text(PRELUDE + source)
    worker = supervisor.start(
        workers.make_request(place / "workflow.py", place),
        place / "control",
        process=0,
        interpreter=sys.executable,
        script=script,
        environment=environment or {},
        build_seconds=BUILD_SECONDS,
    )
    assert isinstance(worker, Worker)
    return worker


def hear(supervisor: Supervisor, kind: type[Any]) -> Any:
    """Listen until there is a message of this kind, and return it; nothing may have ended meanwhile."""
    while True:
        for _, message in supervisor.listen():
            if isinstance(message, kind):
                return message
            assert not isinstance(message, Outcome), message


def hear_end(supervisor: Supervisor, worker: Worker) -> list[Message]:
    """Listen until the worker has ended, and return all that came."""
    messages: list[Message] = []
    while worker.outcome is None:
        messages += [message for _, message in supervisor.listen()]
    return messages
