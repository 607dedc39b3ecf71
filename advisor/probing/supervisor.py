"""Start workers, receive their messages, enforce their deadlines and kill them.

Everything that a worker does becomes an event or an outcome; nothing that it does raises here.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from typing_extensions import Self

from advisor.domain.errors import SandboxError
from advisor.probing.processes import kill_worker
from advisor.probing.worker_failures import MAX_REASON_CHARS, exit_failure, timeout_failure
from advisor.probing.worker_process import NEVER, Worker
from advisor.store.files import report_unwritable
from probes import commands, protocol, sandbox
from probes.events import Event
from probes.outcome import Failure, Outcome, Phase

#: A worker that has written its response gets this long to exit by itself.
EXIT_GRACE_SECONDS = 5.0
#: `select` does not accept a timeout of months, which the deadline of a build may be.
MAX_WAIT_SECONDS = 3600.0
#: More than all notifications that can be pending at once.
NOTIFICATION_BYTES = 65536
#: The next step where nothing can be written, which would stop the next worker as well.
MAKE_ROOM = "make room on its disk, and resume the run"

#: Errors of a message that is not JSON, not of its type, out of bounds, not UTF-8, nested too deep,
#: in something that is not a file, or not allowed at its place in the sequence.
DAMAGED = (msgspec.MsgspecError, ValueError, RecursionError, OSError)

Message = Event | Outcome


class Supervisor:
    """Owns all workers of a run, and kills them when its context ends."""

    def __init__(
        self, deadlines: Mapping[Phase, float], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Make a supervisor without workers; `clock` may stop while the run is paused."""
        self._deadlines = deadlines
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._workers: list[Worker] = []
        self._folders = contextlib.ExitStack()
        self._short_names: dict[pathlib.Path, pathlib.Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in list(self._workers):
            self.kill(worker)
        self._short_names.clear()
        self._folders.close()
        self._selector.close()

    def short_name(self, directory: pathlib.Path) -> pathlib.Path:
        """Return a short path to `directory`, which exists until the context ends."""
        if directory not in self._short_names:
            with report_unwritable(pathlib.Path(tempfile.gettempdir()), MAKE_ROOM):
                folder = self._folders.enter_context(tempfile.TemporaryDirectory(prefix="p3-"))
                link = pathlib.Path(folder, "0")
                link.symlink_to(directory.resolve())
            self._short_names[directory] = link
        return self._short_names[directory]

    def start(
        self,
        request: protocol.Request,
        directory: pathlib.Path,
        *,
        process: int,
        interpreter: str,
        script: pathlib.Path,
        environment: Mapping[str, str],
        max_build_seconds: float,
    ) -> Worker | Failure:
        popen = spawn(request, directory, [interpreter, str(script)], environment)
        if isinstance(popen, Failure):
            return popen
        assert popen.stdout is not None  # noqa: S101 - for the type checker: stdout=PIPE
        notify_fd = popen.stdout.fileno()
        os.set_blocking(notify_fd, False)
        worker = Worker(
            arm=request.arm,
            process=process,
            directory=directory,
            popen=popen,
            notify_fd=notify_fd,
            pidfd=os.pidfd_open(popen.pid),
            deadlines=self._deadlines,
            clock=self._clock,
            max_build_seconds=max_build_seconds,
        )
        worker.begin(commands.Start())
        self._workers.append(worker)
        self._selector.register(notify_fd, selectors.EVENT_READ, worker)
        # Subprocesses of the stack may hold the pipe open, so the exit of the worker is watched
        # separately.
        self._selector.register(worker.pidfd, selectors.EVENT_READ, worker)
        return worker

    def send(self, worker: Worker, command: commands.Command) -> None:
        """Send one command; `poll` reports a worker that has exited."""
        worker.begin(command)
        assert worker.popen.stdin is not None  # noqa: S101 - for the type checker: stdin=PIPE
        with contextlib.suppress(BrokenPipeError):
            worker.popen.stdin.write(commands.encode(command))
            worker.popen.stdin.flush()

    def poll(self, timeout: float | None = None) -> Iterator[tuple[Worker, Message]]:
        """Return without a message after `timeout` seconds, or after an hour at the latest."""
        wait = min((worker.deadline for worker in self._workers), default=NEVER) - self._clock()
        if timeout is not None:
            wait = min(wait, timeout)
        ready = self._selector.select(min(max(wait, 0.0), MAX_WAIT_SECONDS))
        for worker in dict.fromkeys(key.data for key, _ in ready):
            self._drain_notifications(worker)
            yield from self._read_messages(worker)
        for worker in [worker for worker in self._workers if self._clock() >= worker.deadline]:
            yield self.end(worker, Outcome(timeout_failure(worker)))

    def _drain_notifications(self, worker: Worker) -> None:
        """Empty the pipe; stop watching it when the worker has closed it."""
        if worker.notify_fd not in self._selector.get_map():
            return
        with contextlib.suppress(BlockingIOError):
            if not os.read(worker.notify_fd, NOTIFICATION_BYTES):
                self._selector.unregister(worker.notify_fd)

    def _read_messages(self, worker: Worker) -> Iterator[tuple[Worker, Message]]:
        # A worker writes its events, then its response, then exits. Reading in the opposite order
        # misses nothing: whatever was seen first implies that the rest is complete.
        has_exited = worker.popen.poll() is not None
        if not worker.directory.is_dir():
            reason = f"its control directory {worker.directory} was removed"
            fix = "let no other program remove files of a run; then resume the run"
            yield self.end(worker, Outcome(Failure("crashed", worker.phase, reason, fix)))
            return
        try:
            outcome = worker.read_response()
            for event in worker.read_events():
                worker.apply_event(event)
                yield worker, event
        except DAMAGED as problem:
            reason = f"it wrote a message that cannot be read: {problem}"[:MAX_REASON_CHARS]
            outcome = Outcome(Failure("crashed", worker.phase, reason))
        if outcome is None and has_exited:
            outcome = Outcome(exit_failure(worker))
        if outcome is not None:
            yield self.end(worker, outcome)

    def end(self, worker: Worker, outcome: Outcome) -> tuple[Worker, Outcome]:
        self.kill(worker)
        worker.outcome = outcome
        return worker, outcome

    def kill(self, worker: Worker) -> None:
        """Remove the worker and kill all its processes; do nothing for one that was removed."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        for descriptor in (worker.notify_fd, worker.pidfd):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        os.close(worker.pidfd)
        if os.path.lexists(worker.directory / protocol.RESPONSE):
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.popen.wait(EXIT_GRACE_SECONDS)
        kill_worker(worker.popen, worker.directory)
        for stream in (worker.popen.stdin, worker.popen.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]


def spawn(
    request: protocol.Request,
    directory: pathlib.Path,
    command: Sequence[str],
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes] | Failure:
    """Start `command` in a new session, with its request and its log in `directory`.

    Raise `NotWritableError` if `directory` cannot be written.
    """
    with report_unwritable(directory, MAKE_ROOM):
        directory.mkdir(parents=True)
        (directory / protocol.REQUEST).write_bytes(msgspec.json.encode(request))
        log = (directory / protocol.LOG).open("wb")
    with log:
        try:
            return subprocess.Popen(  # noqa: S603 - an argument list, no shell
                [*command, str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**environment, protocol.MARK_VARIABLE: str(directory)},
                start_new_session=True,
            )
        except OSError as problem:
            reason = f"{command[0]} cannot be started: {problem.strerror}"
            fix = (
                "start a new run, which detects the interpreters again, "
                "or create the environment again with p3-advisor env create"
            )
            return Failure("crashed", "start", reason, fix)


def require_sandbox() -> None:
    """Raise `SandboxError` with the reason where workers cannot be confined."""
    obstacle = sandbox.find_obstacle()
    if obstacle is not None:
        raise SandboxError(
            f"the sandbox cannot be used here: {obstacle}",
            "omit --sandbox for a model that you trust, or run in a container or virtual machine",
        )
