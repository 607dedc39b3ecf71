"""Start workers, hear them, end them.

Whatever a worker does becomes an event or an outcome; nothing it does raises here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType

import msgspec
from typing_extensions import Self

from advisor.domain.catalogue import Deadlines
from advisor.domain.outcome import Crashed, Outcome, Skipped, TimedOut
from advisor.domain.worker_events import (
    BlockTimed,
    Built,
    Imported,
    Phase,
    PhaseStarted,
    Ready,
    WorkerEvent,
)
from advisor.probing.spawn import spawn
from advisor.probing.termination import LONGEST_REASON, SKIPPED, failure_reason, kill_all
from probes import protocol

#: A worker that has said its last word gets this long to leave by itself.
LEAVING_SECONDS = 5.0
#: The system cannot wait for months at a time, as the deadline of a build may be away.
LONGEST_WAIT_SECONDS = 3600.0

#: The phase that a token begins.
PHASE_OF_TOKEN: dict[str, Phase] = {
    "build": "load",
    "peaks": "measure",
    "allocate": "measure",
    "visit": "measure",
    "sustain": "sustain",
    "diagnose": "diagnose",
    "flex": "done",
    "stop": "done",
}

Message = WorkerEvent | Outcome


@dataclasses.dataclass(frozen=True)
class BuildLimit:
    """Seconds of an arm's builds together beyond which they are not wanted, and what is said of one that is ended for it."""

    seconds: float
    reason: str
    fix: str


NO_LIMIT = BuildLimit(float("inf"), "", "")


@dataclasses.dataclass(eq=False)
class Worker:
    """One worker process and how far it has come."""

    arm: str
    process: int
    directory: pathlib.Path
    popen: subprocess.Popen[bytes]
    doorbell: int
    exit_watch: int
    build_seconds: float
    limit: BuildLimit = NO_LIMIT
    #: What its builds have taken so far.
    built_seconds: float = 0.0
    phase: Phase = "start"
    deadline: float = float("inf")
    read_bytes: int = 0
    outcome: Outcome | None = None

    @property
    def log(self) -> pathlib.Path:
        """What the stack printed."""
        return self.directory / protocol.LOG


class Supervisor:
    """Owns all workers of a run; leaving its context ends every one of them."""

    def __init__(
        self, deadlines: Deadlines, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._deadlines = deadlines
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._workers: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in list(self._workers):
            self._terminate(worker)
        self._selector.close()

    def start(
        self,
        request: protocol.Request,
        directory: pathlib.Path,
        *,
        process: int,
        interpreter: str,
        script: pathlib.Path,
        environment: Mapping[str, str],
        build_seconds: float,
        within: Sequence[str] = (),
    ) -> Worker | Crashed:
        """Start a worker for `request`, or return why it cannot be; `within` is what starts an interpreter in a container."""
        popen = spawn(request, directory, [*(within or [interpreter]), str(script)], environment)
        if isinstance(popen, Crashed):
            return popen
        assert popen.stdout is not None  # noqa: S101 - for the type checker: stdout=PIPE
        doorbell = popen.stdout.fileno()
        os.set_blocking(doorbell, False)
        worker = Worker(
            request.arm,
            process,
            directory,
            popen,
            doorbell,
            os.pidfd_open(popen.pid),
            build_seconds,
        )
        self._expect(worker, "start")
        self._workers.append(worker)
        self._selector.register(doorbell, selectors.EVENT_READ, worker)
        # Processes that a stack forks may hold the doorbell open, so the end of the process is
        # watched for itself.
        self._selector.register(worker.exit_watch, selectors.EVENT_READ, worker)
        return worker

    def send(self, worker: Worker, token: str) -> None:
        """Send one token; a worker that is gone is found out by `listen`."""
        self._expect(worker, PHASE_OF_TOKEN[token.partition(" ")[0]])
        assert worker.popen.stdin is not None  # noqa: S101 - for the type checker: stdin=PIPE
        with contextlib.suppress(BrokenPipeError):
            worker.popen.stdin.write(f"{token}\n".encode("ascii"))
            worker.popen.stdin.flush()

    def listen(self, timeout: float | None = None) -> Iterator[tuple[Worker, Message]]:
        """Sleep until some worker has news, a deadline passes, `timeout` is over or an hour; yield the news."""
        wait = (
            min((worker.deadline for worker in self._workers), default=float("inf")) - self._clock()
        )
        if timeout is not None:
            wait = min(wait, timeout)
        rung = self._selector.select(min(max(wait, 0.0), LONGEST_WAIT_SECONDS))
        for worker in dict.fromkeys(key.data for key, _ in rung):
            self._drain_doorbell(worker)
            yield from self._hear(worker)
        for worker in [worker for worker in self._workers if self._clock() >= worker.deadline]:
            yield from self._time_out(worker)

    def end(self, worker: Worker) -> None:
        """Kill the worker and everything it started, now."""
        self._terminate(worker)

    def _drain_doorbell(self, worker: Worker) -> None:
        """Take the rings; a doorbell that is closed while the worker lives is not listened to any more."""
        with contextlib.suppress(BlockingIOError):
            if worker.doorbell in self._selector.get_map() and not os.read(worker.doorbell, 65536):
                self._selector.unregister(worker.doorbell)

    def _hear(self, worker: Worker) -> Iterator[tuple[Worker, Message]]:
        # The last first: a worker ends after its response and responds after its events, so what is
        # found is never ahead of what is read.
        ended = worker.popen.poll() is not None
        try:
            outcome = self._read_response(worker)
            for said in self._read_events(worker):
                self._follow(worker, said)
                yield worker, said
        except msgspec.MsgspecError as problem:
            outcome = Crashed(
                phase=worker.phase,
                signal=None,
                reason=f"it wrote what cannot be read: {problem}"[:LONGEST_REASON],
            )
        if outcome is None and ended:
            outcome = self._explain_end(worker)
        if outcome is not None:
            self._terminate(worker)
            worker.outcome = outcome
            yield worker, outcome

    def _read_events(self, worker: Worker) -> list[WorkerEvent]:
        try:
            with (worker.directory / protocol.EVENTS).open("rb") as file:
                file.seek(worker.read_bytes)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        worker.read_bytes += len(whole)
        return [msgspec.json.decode(line, type=WorkerEvent) for line in whole.splitlines()]

    def _read_response(self, worker: Worker) -> Outcome | None:
        try:
            response = (worker.directory / protocol.RESPONSE).read_bytes()
        except FileNotFoundError:
            return None
        outcome: Outcome = msgspec.json.decode(response, type=Outcome)
        return outcome

    def _follow(self, worker: Worker, said: WorkerEvent) -> None:
        if isinstance(said, PhaseStarted):
            self._expect(worker, said.phase)
        elif isinstance(said, Built):
            worker.built_seconds += said.build_seconds + said.first_call_seconds
        elif isinstance(said, (Imported, Ready, BlockTimed)):
            worker.deadline = float("inf")  # it waits for a token

    def _expect(self, worker: Worker, phase: Phase) -> None:
        """Start the clock of `phase`."""
        seconds = {
            "start": self._deadlines.start,
            "import": self._deadlines.import_,
            "load": self._deadlines.load,
            "build": min(worker.build_seconds, worker.limit.seconds - worker.built_seconds),
            "correctness": self._deadlines.correctness,
            "warmup": self._deadlines.warmup,
            "measure": self._deadlines.visit,
            "sustain": self._deadlines.sustain,
            "diagnose": self._deadlines.diagnose,
            "flex": worker.build_seconds,
            "done": self._deadlines.done,
        }[phase]
        worker.phase = phase
        worker.deadline = self._clock() + seconds

    def _time_out(self, worker: Worker) -> Iterator[tuple[Worker, Message]]:
        self._terminate(worker)
        reason = f"the phase {worker.phase} took longer than its deadline; its log ends: {failure_reason(worker.log)}"
        fix = "allow more with --max-build-seconds" if worker.phase in {"build", "flex"} else None
        if (
            worker.phase == "build"
            and worker.limit.seconds - worker.built_seconds < worker.build_seconds
        ):
            reason, fix = worker.limit.reason, worker.limit.fix
        worker.outcome = TimedOut(phase=worker.phase, reason=reason, fix=fix)
        yield worker, worker.outcome

    def _explain_end(self, worker: Worker) -> Crashed | Skipped:
        status = worker.popen.wait()
        if (worker.directory / SKIPPED).exists():
            return Skipped(
                phase=worker.phase, reason=f"skipped by the user in the phase {worker.phase}"
            )
        name = signal.Signals(-status).name if status < 0 else None
        how = (
            f"its process was ended by {name}"
            if name
            else f"its process left with status {status} and no answer"
        )
        if name == "SIGKILL":
            how += " (the kernel does that when memory is short)"
        return Crashed(
            phase=worker.phase,
            signal=name,
            reason=f"{how}; its log ends: {failure_reason(worker.log)}",
        )

    def _terminate(self, worker: Worker) -> None:
        """Forget the worker and kill its group, and below it what has left the group."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        for watched in (worker.doorbell, worker.exit_watch):
            if watched in self._selector.get_map():
                self._selector.unregister(watched)
        os.close(worker.exit_watch)
        leaving = (worker.directory / protocol.RESPONSE).exists()
        if leaving:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.popen.wait(LEAVING_SECONDS)
        kill_all(worker.popen, worker.directory)
        for stream in (worker.popen.stdin, worker.popen.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]
