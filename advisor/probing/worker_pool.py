"""The worker processes of a session: their tokens, their reports, and the memory of their arms."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
from collections.abc import Callable, Iterator

from advisor.domain.plan import Arm, arm_directory_name
from advisor.domain.run_events import (
    DeviceMemory,
    RunEvent,
    WorkerEnded,
    WorkerReported,
    WorkerSpawned,
)
from advisor.probing import idle
from advisor.probing.device_memory import (
    BuildMemory,
    DeviceMemoryMonitor,
    MemoryHeadroom,
    added_bytes,
)
from advisor.probing.run_config import RunConfig
from advisor.probing.supervisor import Message, Supervisor, require_writable
from advisor.probing.worker_process import Worker
from advisor.probing.worker_states import WorkerStates
from probes import protocol
from probes.wire.events import Created, Engagement, Imported
from probes.wire.outcome import Failure, Outcome


@dataclasses.dataclass
class Standby:
    """A worker for the repetition of an arm, which has imported its stack before it is needed.

    It has created the model too, as far as it can without its weights. Its messages wait until the
    repetition begins.
    """

    worker: Worker
    messages: list[Message] = dataclasses.field(default_factory=list)

    @property
    def is_busy(self) -> bool:
        """Whether it imports or creates the model."""
        return not any(isinstance(each, (Created, Outcome)) for each in self.messages)


class WorkerPool:
    """The workers of a session, and the state of each arm's last one."""

    def __init__(self, supervisor: Supervisor, config: RunConfig, headroom: MemoryHeadroom) -> None:
        self.supervisor = supervisor
        self.config = config
        self.headroom = headroom
        self.workers = WorkerStates()
        self.busy_processes = idle.BusyProcesses()
        self.standbys: dict[str, Standby] = {}

    def spawn(
        self, arm: Arm, process: int, repeat: int = 0, compile_threads: int | None = None
    ) -> Iterator[RunEvent]:
        """Start a worker of the arm; compilers use `compile_threads`, or as many as they choose.

        A standby of the same process is used instead.
        """
        standby = self._take_standby(arm.id, process)
        worker = standby.worker if standby else self._start(arm, process, repeat, compile_threads)
        self.workers.reset(arm.id)
        self.busy_processes.forget(arm.id)
        yield WorkerSpawned(arm=arm.id, process=process, repeat=repeat)
        if isinstance(worker, Worker):
            self.workers.add(arm.id, worker)
        else:
            self.workers.add_failure(arm.id)
            yield WorkerEnded(arm=arm.id, process=process, outcome=Outcome(worker))
        if standby:
            for message in standby.messages:
                yield self.record(standby.worker, message)

    def add_standby(self, arm: Arm, process: int) -> None:
        """Start a worker for the first repetition of the arm."""
        worker = self._start(arm, process, repeat=1)
        if isinstance(worker, Worker):
            self.standbys[arm.id] = Standby(worker)

    def end_standbys(self) -> None:
        for standby in self.standbys.values():
            self.supervisor.kill(standby.worker)
        self.standbys.clear()

    def _take_standby(self, arm: str, process: int) -> Standby | None:
        """Return the standby of the arm, and let it go on; end one of another process number."""
        standby = self.standbys.pop(arm, None)
        if standby is None:
            return None
        if standby.worker.process != process or standby.worker.outcome is not None:
            self.supervisor.kill(standby.worker)
            return None
        self.supervisor.go_on([standby.worker])
        return standby

    def _start(
        self, arm: Arm, process: int, repeat: int, compile_threads: int | None = None
    ) -> Worker | Failure:
        config = self.config
        directory = config.arms_directory / arm_directory_name(arm.id) / str(process)
        shutil.rmtree(directory, ignore_errors=True)
        scratch = self.scratch_directory(arm.id)
        shared = config.scratch_directory / "shared"
        with require_writable(config.scratch_directory):
            temporary = scratch / protocol.TEMPORARY_FOLDER
            temporary.mkdir(parents=True, exist_ok=True)
            shared.mkdir(exist_ok=True)
        return self.supervisor.start(
            config.worker_request(arm, scratch, shared, repeat=repeat),
            directory,
            process=process,
            interpreter=arm.python or config.question.python,
            script=config.probes_directory / "worker.py",
            environment=config.worker_environment(
                arm,
                scratch,
                self.supervisor.short_name(temporary),
                compile_threads,
            ),
            max_build_seconds=config.question.max_build_times.get(
                arm.workflow, config.question.max_build_seconds
            ),
        )

    def forget(self, arm: str) -> Iterator[RunEvent]:
        """Kill the worker of the arm, which can be started again as if it had not run."""
        worker = self.workers[arm]
        self.supervisor.kill(worker)
        worker.outcome = Outcome()
        yield self.record(worker, worker.outcome)
        self.workers.forget(arm)

    def scratch_directory(self, arm: str) -> pathlib.Path:
        """Return the folder of caches and artefacts that all processes of an arm share."""
        return self.config.scratch_directory / arm_directory_name(arm)

    def clear_caches(self, arm: str) -> None:
        """Remove the caches and artefacts of the arm, so that its next build is cold."""
        shutil.rmtree(self.scratch_directory(arm), ignore_errors=True)

    def send(self, worker: Worker, token: str) -> None:
        """Send a token; processes of the worker that were paused continue first."""
        self.busy_processes.resume(worker.arm)
        self.supervisor.send(worker, token)

    def run_until(
        self, condition: Callable[[], bool], deferred: list[RunEvent] | None = None
    ) -> Iterator[RunEvent]:
        """Yield events until `condition` holds.

        The event that makes it hold goes to `deferred`: the caller of a generator may pause at any
        event, and a pause must not fall between the end of a section and its closing readings.
        """
        while not condition():
            for worker, message in self._poll():
                run_event = self.record(worker, message)
                if deferred is not None and condition():
                    deferred.append(run_event)
                else:
                    yield run_event

    def receive(self, seconds: float) -> Iterator[RunEvent]:
        """Yield the events that have arrived; wait up to `seconds` for the first ones."""
        for worker, message in self._poll(seconds):
            yield self.record(worker, message)

    def _poll(self, seconds: float | None = None) -> Iterator[tuple[Worker, Message]]:
        """Yield the messages of the workers; those of standbys are kept."""
        for worker, message in self.supervisor.poll(seconds):
            standby = self.standbys.get(worker.arm)
            if standby is None or standby.worker is not worker:
                yield worker, message
                continue
            standby.messages.append(message)
            if isinstance(message, Imported):
                self.supervisor.send(worker, "create")

    def record(self, worker: Worker, message: Message) -> RunEvent:
        """Update the state of the worker, and return the message as an event of the run."""
        self.workers.update(worker.arm, message)
        run_event: RunEvent = (
            WorkerEnded(arm=worker.arm, process=worker.process, outcome=message)
            if isinstance(message, Outcome)
            else WorkerReported(arm=worker.arm, process=worker.process, worker_event=message)
        )
        self.headroom.update(run_event)
        return run_event


class ArmMemory:
    """The device memory of the arms of a session; without a monitor nothing is measured.

    While several arms are built side by side, the memory in use does not show which arm uses what.
    Such an arm used the memory that its worker frees when it ends.
    """

    def __init__(self, pool: WorkerPool, monitor: DeviceMemoryMonitor | None) -> None:
        self._pool = pool
        self._monitor = monitor
        self._built_side_by_side: set[str] = set()

    def add_side_by_side(self, arm: str) -> None:
        self._built_side_by_side.add(arm)

    def reset(self, arm: str) -> None:
        """Forget how the arm was built, because a new worker of it starts."""
        self._built_side_by_side.discard(arm)

    def is_measured_at_end(self, arm: str) -> bool:
        """Return whether the end of the arm's worker shows its memory."""
        return self._monitor is not None and arm in self._built_side_by_side

    def measure_build(
        self, worker: Worker, build: Iterator[RunEvent], deferred: list[RunEvent]
    ) -> Iterator[RunEvent]:
        """Yield the events of a build; put the memory that it adds into `deferred`."""
        if self._monitor is None or worker.arm in self._built_side_by_side:
            yield from build
            return
        with BuildMemory(self._monitor) as memory:
            for run_event in build:
                yield run_event
                if isinstance(run_event, WorkerReported) and isinstance(
                    run_event.worker_event, Engagement
                ):
                    memory.start_serving()
        measured = memory.result(worker.arm, worker.process)
        self._pool.headroom.update(measured)
        deferred.append(measured)

    def measure_end(self, arm: str, end: Iterator[RunEvent]) -> Iterator[RunEvent]:
        """Yield the events of the end of one worker, then the memory that it used and now frees."""
        if self._monitor is None or arm not in self._built_side_by_side:
            yield from end
            return
        used = self._monitor.used_bytes()
        yield from end
        remaining = self._monitor.used_bytes_after_release(used)
        freed = added_bytes(remaining, used)
        yield DeviceMemory(
            arm=arm,
            process=self._pool.workers[arm].process,
            before_bytes=remaining,
            peak_bytes=freed,
            resident_bytes=freed,
            total_bytes=self._monitor.total_bytes,
            source="freed",
        )
