"""Make requests, run real workers, and find the processes that they leave behind."""

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
from builders import replace
from forks import ForkServer

from advisor.ask import catalogue_files
from advisor.probing.run_config import accuracy_thresholds
from probes import commands, protocol
from probes.checking.rules import Rules, rules_for
from probes.commands import Command
from probes.runtime.channel import Channel

PROBES = catalogue_files.probes_directory()
#: Modules that a worker imports before any stack.
CORE_MODULES = [
    ".".join(file.relative_to(PROBES).with_suffix("").parts)
    for folder in (PROBES, PROBES / "checking", PROBES / "runtime")
    for file in sorted(folder.glob("*.py"))
    # These import numpy, or run as a script.
    if file.stem not in {"__init__", "server_workflow", "watchdog_script"}
]
#: Environment variable that a worker and all its descendants inherit, in every session. A test
#: finds the processes by it.
MARK_VARIABLE = "P3_ADVISOR_TEST_MARK"
WAIT_SECONDS = 30.0
#: Runs a worker's script as a program, in a session of its own.
WORKER = """
import os, runpy, sys

os.setsid()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
#: For the workflow of a test: counts the page faults of fifteen calls, each of which frees three
#: blocks of 1 MiB.
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
#: Page faults of one such block that is allocated again.
FAULTS_OF_A_BLOCK = 256
#: Sizes of small models of transformers, and those of text and of images.
TINY = {"hidden_size": 16, "intermediate_size": 32}
TINY |= {"num_hidden_layers": 1, "num_attention_heads": 2}
TEXT = {**TINY, "vocab_size": 50}
PATCHES = {**TINY, "image_size": 32, "patch_size": 16}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **TEXT}


def rules(dtype: str = "float32", **changes: Any) -> Rules:
    shipped = rules_for(accuracy_thresholds(catalogue_files.read_shipped().accuracy), dtype)
    return replace(shipped, **changes)


@dataclasses.dataclass(frozen=True)
class WorkerResult:
    events: list[dict[str, Any]]
    #: The fields of its failure; None without one.
    failure: Any
    #: The bytes that it wrote to standard output.
    notifications: bytes
    log: str
    status: int

    def events_of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]

    @property
    def versions(self) -> dict[str, str]:
        versions: dict[str, str] = self.events_of("imported")[0]["versions"]
        return versions


@dataclasses.dataclass
class FakeProgram:
    """Computes its output from the first input; as its own workflow, it is to be waited for."""

    call: Callable[[Any], Any]
    is_done: bool = False

    def feed(self, inputs: list[Any]) -> Any:
        return inputs[0]

    def __call__(self, device_inputs: Any) -> Any:
        self.is_done = False
        return self.call(device_inputs)

    def synchronise(self) -> None:
        self.is_done = True

    def collect(self, output: Any) -> list[Any]:
        assert self.is_done, "the output is read before its work is done"
        return output if isinstance(output, list) else [output]


def make_request(workflow: pathlib.Path, shared: pathlib.Path, **changes: Any) -> protocol.Request:
    """Return a request for the workflow in this file; `shared` holds weights and references."""
    request = protocol.Request(
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
        visit_seconds=0.005,
        warmup_seconds=0.0,
        most_host_slowdown=1.3,
        minimum_engaged_share=0.5,
        accuracy=accuracy_thresholds(catalogue_files.read_shipped().accuracy),
    )
    return replace(request, **changes)


def subject_request(
    subject: dict[str, Any], shared: pathlib.Path = pathlib.Path(), **changes: Any
) -> protocol.Request:
    """Return a request about a model, of a workflow that is not imported."""
    return make_request(pathlib.Path("unused.py"), shared, subject=subject, **changes)


def random_weights(config: Mapping[str, Any], directory: pathlib.Path) -> dict[str, Any]:
    """Write a configuration of transformers; return the model that has random weights for it."""
    (directory / "config.json").write_text(json.dumps(config))
    return {"kind": "transformers", "name": str(directory), "weights": "random"}


def run_worker(
    request: protocol.Request,
    directory: pathlib.Path,
    *sent: Command,
    probes: pathlib.Path | None = None,
    interpreter: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> WorkerResult:
    """Run a worker with these commands until it has ended, and return its output."""
    _write_request(request, directory)
    command = [
        interpreter,
        str((probes or catalogue_files.probes_directory()) / "runtime/worker.py"),
        str(directory),
    ]
    with (
        (directory / protocol.LOG).open("wb") as log,
        # A session of its own, as the supervisor starts it: the watchdog kills the process group.
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
        worker.stdin.write(b"".join(map(commands.encode, sent)))
        worker.stdin.flush()
        notifications = worker.stdout.read()
        status = worker.wait()
    return _read_result(directory, notifications, status)


def fork_worker(
    server: ForkServer, request: protocol.Request, directory: pathlib.Path, *sent: Command
) -> WorkerResult:
    """Run a worker as `run_worker` does, in a fork of an interpreter that has imported a stack."""
    _write_request(request, directory)
    asked, notified = directory / "stdin", directory / "stdout"
    asked.write_bytes(b"".join(map(commands.encode, sent)))
    ended = server.run(
        WORKER,
        str(catalogue_files.probes_directory() / "runtime/worker.py"),
        str(directory),
        stdin=str(asked),
        stdout=str(notified),
        stderr=str(directory / protocol.LOG),
    )
    return _read_result(directory, notified.read_bytes(), ended.returncode)


def _write_request(request: protocol.Request, directory: pathlib.Path) -> None:
    directory.mkdir()
    (directory / protocol.REQUEST).write_text(json.dumps(dataclasses.asdict(request)))


def _read_result(directory: pathlib.Path, notifications: bytes, status: int) -> WorkerResult:
    events = directory / protocol.EVENTS
    return WorkerResult(
        events=[json.loads(line) for line in events.read_text().splitlines()]
        if events.exists()
        else [],
        failure=json.loads((directory / protocol.RESPONSE).read_text())["failure"],
        notifications=notifications,
        log=(directory / protocol.LOG).read_text(errors="replace"),
        status=status,
    )


@contextlib.contextmanager
def open_channel(directory: pathlib.Path, notify_fd: int) -> Iterator[Channel]:
    """Yield a worker's channel, and close its file afterwards.

    In a worker the file is closed when the process exits.
    """
    channel = Channel(directory, notify_fd)
    with channel._events:
        yield channel


def wait_until(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Return as soon as `condition` holds; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.005)


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def find_marked(mark: str) -> list[psutil.Process]:
    """Return the running processes that have inherited this mark."""
    return [
        process
        for process in psutil.process_iter(["environ"])
        if (process.info["environ"] or {}).get(MARK_VARIABLE) == mark
    ]


@contextlib.contextmanager
def mark_processes(mark: str) -> Iterator[dict[str, str]]:
    """Yield environment variables with this mark; kill all processes that have it afterwards."""
    try:
        yield {**os.environ, MARK_VARIABLE: mark}
    finally:
        for process in find_marked(mark):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
