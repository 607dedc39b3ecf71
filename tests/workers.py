"""Requests for workers, real worker processes, and what is left of them: for the tests of both sides of the protocol."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psutil

from advisor import catalogue
from probes import protocol
from probes.runtime.channel import Channel

#: Modules that a worker imports before any stack.
CORE = (
    "adapter",
    "checking.correctness",
    "measuring.timing",
    "protocol",
    "runtime.caches",
    "runtime.channel",
    "runtime.harness",
    "runtime.memory",
    "runtime.watchdog",
    "worker",
)
#: Variable that a worker and everything it starts inherits, whatever session it makes for itself:
#: so a test finds them all.
MARK = "P3_ADVISOR_TEST_MARK"
SECONDS_BEFORE_GIVING_UP = 30.0
#: For a workflow of a test: the page faults of fifteen calls that free three blocks of 1 MiB each,
#: and how many one such block takes anew.
COUNT_FAULTS = """
import resource

def count_faults():
    faults = []
    for _ in range(20):
        blocks = [bytearray(1 << 20) for _ in range(3)]
        del blocks
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    return faults[-1] - faults[4]
"""
FAULTS_OF_A_BLOCK = 256


@dataclasses.dataclass(frozen=True)
class Answer:
    """All that came out of a worker."""

    events: list[dict[str, Any]]
    response: dict[str, Any]
    doorbell: bytes
    log: str
    status: int

    @property
    def versions(self) -> dict[str, str]:
        """What the workflow's `versions` returned."""
        versions: dict[str, str] = next(
            event["versions"] for event in self.events if event["event"] == "imported"
        )
        return versions


def make_request(workflow: pathlib.Path, shared: pathlib.Path, **changes: Any) -> protocol.Request:
    """Return a request for the workflow in this file, with weights and references in `shared`."""
    request = protocol.Request(
        version=protocol.VERSION,
        arm=workflow.stem,
        workflow_file=str(workflow),
        options={},
        subject={"kind": "synthetic"},
        dtype="float32",
        device="cpu",
        batch_sizes=[1],
        input_tokens=8,
        seed=0,
        threads=1,
        role="measure",
        shared_directory=str(shared),
        scratch_directory=str(shared),
        trust_remote_code=False,
        allow_pickle=False,
        input_sets=2,
        block_seconds=0.005,
        warmup_seconds=0.0,
        minimum_engaged_share=0.5,
    )
    return dataclasses.replace(request, **changes)


def ask(
    request: protocol.Request,
    directory: pathlib.Path,
    tokens: str,
    *,
    probes: pathlib.Path | None = None,
    interpreter: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> Answer:
    """Run a worker with these tokens until it has ended, and return what it said."""
    directory.mkdir()
    (directory / protocol.REQUEST).write_text(json.dumps(dataclasses.asdict(request)))
    command = [
        interpreter,
        str((probes or catalogue.probes_directory()) / "worker.py"),
        str(directory),
    ]
    with (
        (directory / protocol.LOG).open("wb") as log,
        # A session of its own, as the advisor does it: the guard kills the whole group.
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,
        ) as worker,
    ):
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(tokens.encode())
        worker.stdin.flush()
        doorbell = worker.stdout.read()
        status = worker.wait()
    events = directory / protocol.EVENTS
    return Answer(
        events=[json.loads(line) for line in events.read_text().splitlines()]
        if events.exists()
        else [],
        response=json.loads((directory / protocol.RESPONSE).read_text()),
        doorbell=doorbell,
        log=(directory / protocol.LOG).read_text(errors="replace"),
        status=status,
    )


@contextlib.contextmanager
def open_channel(directory: pathlib.Path, doorbell: int) -> Iterator[Channel]:
    """Yield a worker's channel, and close its file afterwards: in a worker that happens when the process ends."""
    channel = Channel(directory, doorbell)
    with channel._events:
        yield channel


def wait_until(condition: Callable[[], object], seconds: float = SECONDS_BEFORE_GIVING_UP) -> None:
    """Return as soon as `condition` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


def marked(mark: str) -> list[psutil.Process]:
    """Return the living processes that have inherited this mark."""
    return [
        process
        for process in psutil.process_iter(["environ"])
        if (process.info["environ"] or {}).get(MARK) == mark
    ]


@contextlib.contextmanager
def mark(name: str) -> Iterator[dict[str, str]]:
    """Yield environment variables that bear the mark `name`; afterwards leave no process that has them."""
    try:
        yield {**os.environ, MARK: name}
    finally:
        for process in marked(name):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
