"""Follow one worker process: its control files, its phase, its deadline and its state."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Mapping

import psutil

from advisor.domain.run_events import Conditions
from advisor.domain.wire import decode
from advisor.probing import processes
from advisor.store.files import open_regular
from probes import events, protocol
from probes.commands import Build, BuildNext, Command, Prepare, Visit
from probes.events import Created, Event, Imported, Opened, Prepared, Ready, Visited
from probes.outcome import Outcome, Phase

NEVER = float("inf")


@dataclasses.dataclass(frozen=True)
class BuildLimit:
    """The seconds that all builds of an arm may take, and what is reported when they take more."""

    seconds: float
    reason: str
    fix: str
    #: Why a build that is expected to take longer is left out.
    shortfall: str


NO_LIMIT = BuildLimit(NEVER, "", "", "")

#: Most bytes of one message, of all messages between two polls, and of those of a process.
MAX_LINE_BYTES, MAX_POLL_BYTES, MAX_RUN_BYTES = 4 << 20, 16 << 20, 256 << 20
TOO_LARGE = "the messages are too large"
#: Phases that a worker may start for one command: each shape has four. Each start has a deadline.
MAX_PHASE_STARTS = 400


class Stage(enum.IntEnum):
    """The last step that a worker has completed; `CREATED` and `OPENED` are optional."""

    IMPORTING, IMPORTED, CREATED, OPENED, PREPARED, READY = range(6)


#: By the event that has answered a command.
REACHED = dict(zip((Imported, Created, Opened, Prepared, Ready), [*Stage][1:], strict=True))


@dataclasses.dataclass(eq=False)
class Worker:
    arm: str
    process: int
    #: Control directory of the process.
    directory: pathlib.Path
    popen: subprocess.Popen[bytes]
    #: Read end of the pipe into which the worker writes a byte after each message.
    notify_fd: int
    pidfd: int
    #: Seconds of the phases, and a clock that may stop while the run is paused.
    deadlines: Mapping[Phase, float]
    clock: Callable[[], float]
    max_build_seconds: float
    build_limit: BuildLimit = NO_LIMIT
    #: Limit of each phase that computes or checks outputs.
    correctness_seconds: float = NEVER
    #: Deadline of one shape that was not built.
    new_shape_seconds: float = NEVER
    built_seconds: float = 0.0
    built_shapes: int = 0
    phase: Phase = "start"
    #: Seconds that the phase may take, and the time by `clock` when they are over.
    phase_seconds: float = NEVER
    deadline: float = NEVER
    events_read_bytes: int = 0
    #: How it ended; None while it runs.
    outcome: Outcome | None = None
    stage: Stage = Stage.IMPORTING
    #: Number of commands to build that were sent, also before the import, which `stage` does not
    #: show. A standby builds one shape for each.
    build_commands: int = 0
    #: It has answered the last command, after the import and the build.
    is_ready: bool = False
    #: The result of the last visit; None while that is made, and if the worker ended instead.
    last_visit: Visited | None = None
    #: The conditions during the last visit; not set before the first.
    last_conditions: Conditions = dataclasses.field(init=False)
    #: Seconds of all suspensions so far, the start of the present one by `clock`, and the
    #: seconds that its phase had left then.
    suspended_seconds: float = 0.0
    suspended_since: float | None = None
    left_seconds: float = NEVER
    #: Whether it was built while others were. The memory in use does not show what it uses: it is
    #: what the worker frees at its end.
    built_beside_others: bool = False
    #: Messages of a standby, which wait until the repetition begins.
    messages: list[Event | Outcome] = dataclasses.field(default_factory=list)
    #: Its processes that stay busy while it waits; None if they were not looked for.
    busy: tuple[psutil.Process, ...] | None = None
    #: What it still has to do, and how many phases it may start for the first of these.
    _unanswered: list[Command] = dataclasses.field(default_factory=list)
    _starts_left: int = 0

    @functools.cached_property
    def pid(self) -> int:
        """The first child of the watchdog, which runs the stack; the watchdog after its end."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.popen.pid).children()
            if children:
                return int(min(children, key=psutil.Process.create_time).pid)
        return self.popen.pid

    @property
    def log(self) -> pathlib.Path:
        return self.directory / protocol.LOG

    def read_events(self) -> list[Event]:
        """Return the events that the worker has written since the last call.

        A line that is not complete yet is left for the next call. Raise an error for more than any
        honest worker writes.
        """
        text = self._read(protocol.EVENTS, self.events_read_bytes)
        complete = text[: text.rfind(b"\n") + 1]
        self.events_read_bytes += len(complete)
        lines = complete.splitlines()
        longest = max(map(len, lines), default=0)
        if self.events_read_bytes > MAX_RUN_BYTES or longest > MAX_LINE_BYTES:
            raise ValueError(TOO_LARGE)
        return [decode(line, Event) for line in lines]

    def read_response(self) -> Outcome | None:
        response = self._read(protocol.RESPONSE)
        return decode(response, Outcome) if response else None

    def _read(self, name: str, offset: int = 0) -> bytes:
        try:
            file, size = open_regular(self.directory / name)
        except FileNotFoundError:
            return b""
        with file:
            if size - offset > MAX_POLL_BYTES:
                raise ValueError(TOO_LARGE)
            file.seek(offset)
            return file.read(MAX_POLL_BYTES)

    @property
    def is_waiting(self) -> bool:
        """Whether it runs and has done all that it was sent."""
        return self.outcome is None and not self._unanswered

    @property
    def is_busy(self) -> bool:
        return self.outcome is None and bool(self._unanswered) and self.suspended_since is None

    @property
    def is_prepared(self) -> bool:
        """Whether it has built everything and waits to warm up."""
        return self.is_waiting and self.stage == Stage.PREPARED

    def begin(self, command: Command) -> None:
        """Expect what the worker does for a command, after what it does for earlier ones."""
        self.build_commands += isinstance(command, (Build, Prepare, BuildNext))
        self.is_ready = False
        if isinstance(command, Visit):
            self.last_visit = None
        if command.answer or command.phases:
            self._unanswered.append(command)
        if len(self._unanswered) <= 1:
            self._expect(command)

    def _expect(self, command: Command) -> None:
        self._starts_left = MAX_PHASE_STARTS
        self.start_phase(command.phase)

    def start_phase(self, phase: Phase) -> None:
        limits: dict[Phase, float] = {
            "build": min(self.max_build_seconds, self.remaining_build_seconds),
            "correctness": min(self.deadlines["correctness"], self.correctness_seconds),
            "new-shapes": min(self.max_build_seconds, self.new_shape_seconds),
        }
        self.phase = phase
        self.phase_seconds = limits[phase] if phase in limits else self.deadlines[phase]
        self._allow(self.phase_seconds)

    def _allow(self, seconds: float) -> None:
        """Set the deadline; a suspended worker has all of the seconds left when it goes on."""
        if self.suspended_since is None:
            self.deadline = self.clock() + seconds
        else:
            self.left_seconds = seconds

    def suspend(self) -> None:
        """Stop its processes until `go_on`; its deadline waits as well."""
        if self.suspended_since is not None:
            return
        now = self.clock()
        processes.suspend_processes(self.directory, except_pid=self.popen.pid)
        self.suspended_since, self.left_seconds = now, self.deadline - now
        self.deadline = NEVER

    def go_on(self) -> None:
        """Let its processes continue, and tell it for how long they did not run."""
        if self.suspended_since is None:
            return
        now = self.clock()
        self.suspended_seconds += now - self.suspended_since
        self.suspended_since = None
        self.deadline = now + self.left_seconds
        # Nothing that a worker puts in the place of the file makes this wait.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        with contextlib.suppress(OSError):
            file = os.open(self.directory / protocol.SUSPENDED, flags, 0o600)
            with open(file, "w", encoding="ascii") as text:  # noqa: PTH123 - a descriptor
                text.write(repr(self.suspended_seconds))
        processes.send_signal(processes.process_tree(self.directory), signal.SIGCONT)

    def pause_busy(self) -> None:
        processes.send_signal(self.busy or (), signal.SIGSTOP)

    def resume_busy(self) -> None:
        processes.send_signal(self.busy or (), signal.SIGCONT)

    def apply_event(self, event: Event) -> None:
        """Raise `ValueError` for an event that does not belong to the command that is executed."""
        command = self._unanswered[0] if self._unanswered else None
        if isinstance(event, events.PhaseStarted):
            self._starts_left -= 1
            if command is None or event.phase not in command.phases or self._starts_left < 0:
                message = f"the phase {event.phase} does not belong into the phase {self.phase}"
                raise ValueError(message)
            self.start_phase(event.phase)
        elif isinstance(event, events.Built):
            self.built_seconds += event.seconds
            self.built_shapes += 1
        elif command is not None and type(event) is command.answer:
            self._unanswered.pop(0)
            self.stage = REACHED.get(type(event), self.stage)
            self.is_ready = isinstance(event, Ready)
            if isinstance(event, Visited):
                self.last_visit = event
            if self._unanswered:
                self._expect(self._unanswered[0])
            else:
                self._allow(NEVER)  # the worker waits for a command
        elif isinstance(event, (Imported, Created, Prepared, Ready, Visited)):
            raise ValueError(f"the event {event.event} does not belong into the phase {self.phase}")

    @property
    def remaining_build_seconds(self) -> float:
        return self.build_limit.seconds - self.built_seconds
