"""Scripts that act as workers, under a supervisor whose clock a test advances, and snippets."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import workers
from forks import STACKS
from sessions import expect_failure

from advisor.probing.supervisor import Message, Supervisor
from advisor.probing.worker_process import Worker
from probes.commands import Command
from probes.outcome import Failure, Outcome, Phase

DEADLINES: dict[Phase, float] = {
    "start": 10,
    "import": 20,
    "open": 30,
    "correctness": 50,
    "warmup": 60,
    "measure": 70,
    "sustain": 75,
    "diagnose": 76,
    "done": 80,
}
BUILD_SECONDS = 40
SECONDS = {**DEADLINES, "build": 40, "new-shapes": 40}
#: Fields of a visit.
VISIT = {
    "shape": {"batch_size": 1},
    "round": 1,
    "seconds": [1],
    "warmup_seconds": [],
    "streamed_seconds": None,
}
#: Functions with which a script sends the messages of a worker.
PRELUDE = """
import json, os, pathlib, signal, subprocess, sys, time

directory = pathlib.Path(sys.argv[1])

def notify():
    os.write(1, b".")

def write_events(text):
    with (directory / "events.jsonl").open("a") as events:
        events.write(text)
    notify()

def send_event(event, **fields):
    write_events(json.dumps({"event": event, **fields}) + "\\n")

def enter_phase(phase):
    send_event("phase_started", phase=phase, shape=None)

def respond(status=None, **fields):
    unfinished = directory / "unfinished"
    failure = {"status": status, **fields} if status else None
    unfinished.write_text(json.dumps({"failure": failure}))
    unfinished.rename(directory / "response.json")
    notify()

def log(text):
    os.write(2, text.encode())

"""
#: Snippet of a model whose weights are the same in every process, and different inputs in each.
WITH_TORCH = """\
import os, pathlib, time
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 4).eval()
torch.seed()
inputs = (torch.randn(2, 8),)
"""
LOADING = f"import sys\nsys.path.insert(0, {str(STACKS / 'small_torch')!r})\n{WITH_TORCH}"
CALL = "# Each call:\nwith torch.inference_mode():\n    output = {}\n"
EAGER = LOADING + CALL.format("model(*inputs)")
#: Line of a script that waits for a command.
WAIT = "sys.stdin.readline()\n"


class Clock:
    """The supervisor's clock."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclasses.dataclass
class ScriptedWorkers:
    """Scripts that act as workers; each has the functions of `PRELUDE`."""

    supervisor: Supervisor
    folder: pathlib.Path
    #: That of the supervisor, unless its time really passes.
    clock: Clock = dataclasses.field(default_factory=Clock)

    def start(
        self,
        source: str,
        *commands: Command,
        is_waiting: bool = False,
        name: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Worker:
        """Start a script, by default the only one of a test.

        It counts as executing `commands`, which it does not receive, or as waiting; else it starts.
        """
        folder = self.folder / name
        if name:
            folder.mkdir()
        script = folder / "script.py"
        script.write_text(PRELUDE + source)
        worker = self.supervisor.start(
            workers.make_request(folder / "workflow.py", folder),
            folder / "control",
            process=0,
            interpreter=sys.executable,
            script=script,
            environment=environment or {},
            max_build_seconds=BUILD_SECONDS,
        )
        assert isinstance(worker, Worker)
        if commands or is_waiting:
            worker._unanswered.clear()
        for command in commands:
            worker.begin(command)
        return worker

    def next_message(self, kind: type[Any]) -> Any:
        """Return the next message of this kind; fail if a worker ends before it."""
        while True:
            for _, message in self.supervisor.poll():
                if isinstance(message, kind):
                    return message
                assert not isinstance(message, Outcome), message

    def messages_until_end(self, worker: Worker) -> list[Message]:
        messages: list[Message] = []
        while worker.outcome is None:
            messages += [message for _, message in self.supervisor.poll()]
        return messages

    def failure_of(self, source: str, *commands: Command) -> Failure:
        """Return the failure as which the supervisor takes the end of such a script."""
        return expect_failure(self.messages_until_end(self.start(source, *commands))[-1], "crashed")
