"""Drive the resident workers of a run: import, build one at a time, time blocks of calls, stop.

A method is a generator of the events that occur while it runs. The pipeline decides what comes
next.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from advisor.domain.outcome import Outcome
from advisor.domain.plan import REFERENCE, Arm, arm_directory_name
from advisor.domain.run_events import (
    BusyWhileIdle,
    Conditions,
    EnergyMeasured,
    MemoryChecked,
    RunEvent,
    WorkerEnded,
    WorkerReported,
    WorkerSpawned,
)
from advisor.domain.worker_events import BlockTimed, Engaged
from advisor.probing import idle
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.device_memory import BuildMemory, DeviceMemoryMonitor, increase
from advisor.probing.memory_headroom import MemoryHeadroom
from advisor.probing.run_config import RunConfig
from advisor.probing.spawn import require_writable
from advisor.probing.supervisor import Message, Supervisor
from advisor.probing.worker_process import BuildLimit, Worker
from advisor.probing.worker_states import WorkerStates
from advisor.system.host_lock import HostLock

#: Size of the allocation with which the device's memory counter is checked.
KNOWN_BYTES = 256 << 20


class Session:
    """The resident workers of a run."""

    def __init__(
        self,
        supervisor: Supervisor,
        config: RunConfig,
        conditions_monitor: ConditionsMonitor,
        memory_monitor: DeviceMemoryMonitor | None = None,
        host_lock: HostLock | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._config = config
        self._conditions_monitor = conditions_monitor
        self._memory_monitor = memory_monitor
        self._headroom = MemoryHeadroom(memory_monitor)
        self._host_lock = host_lock or HostLock()
        #: The host lock, held from `start_reference` until `start` takes it over.
        self._reference_lock: contextlib.AbstractContextManager[object] | None = None
        self._workers = WorkerStates()
        self._conditions: dict[str, Conditions] = {}
        self._busy_processes = idle.BusyProcesses()

    def start_reference(self, arm: Arm, process: int) -> Iterator[RunEvent]:
        """Start the reference worker, which runs the workflow of `arm`.

        It computes the reference outputs while other workers import; nothing is timed meanwhile. It
        still runs when this method returns, so `start`, which waits for it, takes over the lock.
        """
        reference = msgspec.structs.replace(arm, id=REFERENCE)
        with contextlib.ExitStack() as lock:
            lock.enter_context(self._host_lock.exclusive())
            yield from self._spawn(reference, process)
            if self.is_running(REFERENCE):
                self._supervisor.send(self._workers[REFERENCE], "build")
            self._reference_lock = lock.pop_all()

    def start(
        self, arms: Iterable[tuple[Arm, int]], repeat: int = 0, built: Collection[str] = ()
    ) -> Iterator[RunEvent]:
        """Start a worker for each arm and process number, and let it import.

        As many workers import at a time as there are processors. The arms in `built` keep the
        caches of their finished builds; the caches of other arms are removed, as an interrupted
        build may have left them. Stop early when the reference worker has failed, because nothing
        can be compared without it.
        """
        lock, self._reference_lock = self._reference_lock or self._host_lock.exclusive(), None
        with lock:
            processors = self._config.machine.cpu.usable_processors
            for arm, process in arms:
                yield from self._run_until(lambda: len(self._workers.importing()) < processors)
                if self._workers.has_failed(REFERENCE) and not self.is_built(REFERENCE):
                    return
                if arm.id not in built:
                    shutil.rmtree(self._scratch_directory(arm.id), ignore_errors=True)
                yield from self._spawn(arm, process, repeat)
            yield from self._run_until(lambda: not self._workers.importing())

    def build(self, arm: str, limit: BuildLimit | None = None) -> Iterator[RunEvent]:
        """Let one arm load, build, check its outputs and warm up while the others are idle.

        A build that exceeds the limit is killed.
        """
        if not self.is_running(arm):
            return
        worker = self._workers[arm]
        if limit is not None:
            worker.build_limit = limit
        deferred: list[RunEvent] = []
        with self._host_lock.exclusive():
            yield from (
                self._build(worker, deferred)
                if self._memory_monitor is None
                else self._build_with_memory(worker, self._memory_monitor, deferred)
            )
            if self.is_running(arm):
                deferred += self._pause_busy_processes(worker)
        yield from deferred

    def _pause_busy_processes(self, worker: Worker) -> list[RunEvent]:
        processors = self._busy_processes.find_and_pause(worker.arm, worker.directory)
        if not processors:
            return []
        return [BusyWhileIdle(arm=worker.arm, process=worker.process, processors=processors)]

    def _send(self, worker: Worker, token: str) -> None:
        self._busy_processes.resume(worker.arm)
        self._supervisor.send(worker, token)

    def _build(self, worker: Worker, deferred: list[RunEvent]) -> Iterator[RunEvent]:
        self._supervisor.send(worker, "build")
        yield from self._run_until(lambda: self._workers.is_ready_or_ended(worker.arm), deferred)

    def _build_with_memory(
        self, worker: Worker, monitor: DeviceMemoryMonitor, deferred: list[RunEvent]
    ) -> Iterator[RunEvent]:
        """Build, and measure the device memory that this adds."""
        with BuildMemory(monitor) as memory:
            for run_event in self._build(worker, deferred):
                yield run_event
                if isinstance(run_event, WorkerReported) and isinstance(
                    run_event.worker_event, Engaged
                ):
                    memory.start_serving()
        measured = memory.result(worker.arm, worker.process)
        self._headroom.update(measured)
        deferred.append(measured)

    def drop(self, arm: str, outcome: Outcome) -> Iterator[RunEvent]:
        """End the arm's worker, if it runs, before it is built; `outcome` says why."""
        if self.is_running(arm):
            worker = self._workers[arm]
            self._supervisor.kill(worker)
            worker.outcome = outcome
            yield self._record(worker, outcome)

    def check_memory(self) -> Iterator[RunEvent]:
        """Let the reference worker allocate a known amount, and read what the device counts."""
        if self._memory_monitor is None:
            return
        deferred: list[RunEvent] = []
        with self._host_lock.exclusive():
            before = self._memory_monitor.used_bytes()
            yield from self._send_and_wait(REFERENCE, f"allocate {KNOWN_BYTES}", deferred)
            seen = increase(before, self._memory_monitor.used_bytes())
        yield from deferred
        if self.is_running(REFERENCE):
            yield MemoryChecked(allocated_bytes=KNOWN_BYTES, seen_bytes=seen)
            yield from self.send_and_wait(REFERENCE, "allocate 0")

    def send_and_wait(self, arm: str, token: str) -> Iterator[RunEvent]:
        """Send a token to the arm's worker, and wait until it is ready again or has ended."""
        deferred: list[RunEvent] = []
        with self._host_lock.exclusive():
            yield from self._send_and_wait(arm, token, deferred)
        yield from deferred

    def _send_and_wait(self, arm: str, token: str, deferred: list[RunEvent]) -> Iterator[RunEvent]:
        self._workers.expect_ready(arm)
        self._send(self._workers[arm], token)
        yield from self._run_until(lambda: self._workers.is_ready_or_ended(arm), deferred)
        self._busy_processes.pause(arm)

    def visit(self, arm: str, batch_size: int, number: int) -> Iterator[RunEvent]:
        """Time one block of calls; `last_visit` and `last_conditions` return its result.

        There is no result if the worker ended meanwhile.
        """
        worker = self._workers[arm]
        self._workers.expect_visit(arm)
        deferred: list[RunEvent] = []
        with self._host_lock.shared():
            before = self._conditions_monitor.read_counters(worker.popen.pid)
            self._send(worker, f"visit {batch_size} {number}")
            yield from self._run_until(lambda: self._workers.is_visited_or_ended(arm), deferred)
            self._busy_processes.pause(arm)
            self._conditions[arm] = self._conditions_monitor.conditions_since(
                before, worker.popen.pid
            )
            idle.wait_until_idle(worker.popen.pid)
        yield from deferred

    def sustain(self, arm: str, batch_size: int, seconds: float) -> Iterator[RunEvent]:
        """Call the arm without a pause for `seconds`, and report the energy that this used."""
        deferred: list[RunEvent] = []
        with self._host_lock.shared():
            before = self._conditions_monitor.energy_joules()
            yield from self._send_and_wait(arm, f"sustain {batch_size} {seconds}", deferred)
            joules = increase(before, self._conditions_monitor.energy_joules())
        yield from deferred
        yield EnergyMeasured(
            arm=arm, process=self.process_number(arm), batch_size=batch_size, joules=joules
        )

    def last_visit(self, arm: str) -> BlockTimed | None:
        """Return the result of the last `visit`; None if the worker ended instead."""
        return self._workers.last_visit(arm)

    def last_conditions(self, arm: str) -> Conditions:
        """Return the conditions of the machine during the last `visit`."""
        return self._conditions[arm]

    def process_number(self, arm: str) -> int:
        """Return the number of the arm's process that was started last."""
        return self._workers[arm].process

    def has_memory_headroom(self) -> bool:
        """Return whether there is memory for one more worker to build."""
        return self._headroom.fits_another_worker()

    def stop(self, arms: Collection[str] | None = None) -> Iterator[RunEvent]:
        """Let all workers, or those of `arms`, check their outputs once more and exit."""
        stopping = [arm for arm in self._workers.running() if arms is None or arm in arms]
        if not stopping:
            return
        with self._host_lock.exclusive():
            for arm in stopping:
                self._send(self._workers[arm], "stop")
            yield from self._run_until(lambda: not any(map(self.is_running, stopping)))

    def is_running(self, arm: str) -> bool:
        """Return whether the arm has a worker that has not ended."""
        return self._workers.is_running(arm)

    def is_built(self, arm: str) -> bool:
        """Return whether the arm's last worker has built everything and has warmed up."""
        return self._workers.is_built(arm)

    def _spawn(self, arm: Arm, process: int, repeat: int = 0) -> Iterator[RunEvent]:
        config = self._config
        directory = config.arms_directory / arm_directory_name(arm.id) / str(process)
        shutil.rmtree(directory, ignore_errors=True)
        scratch = self._scratch_directory(arm.id)
        shared = config.scratch_directory / "shared"
        with require_writable(config.scratch_directory):
            scratch.mkdir(parents=True, exist_ok=True)
            shared.mkdir(exist_ok=True)
        worker = self._supervisor.start(
            config.worker_request(arm, scratch, shared),
            directory,
            process=process,
            interpreter=arm.python or config.question.python,
            script=config.probes_directory / "worker.py",
            environment=config.worker_environment(arm, scratch),
            max_build_seconds=config.question.max_build_seconds,
            container_command=config.container_command(arm, (directory, scratch, shared)),
        )
        self._workers.reset(arm.id)
        self._busy_processes.forget(arm.id)
        yield WorkerSpawned(arm=arm.id, process=process, repeat=repeat)
        if isinstance(worker, Worker):
            self._workers.add(arm.id, worker)
        else:
            self._workers.add_failure(arm.id)
            yield WorkerEnded(arm=arm.id, process=process, outcome=worker)

    def _scratch_directory(self, arm: str) -> pathlib.Path:
        """Return the folder of caches and artefacts that all processes of an arm share."""
        return self._config.scratch_directory / arm_directory_name(arm)

    def _run_until(
        self, condition: Callable[[], bool], deferred: list[RunEvent] | None = None
    ) -> Iterator[RunEvent]:
        """Yield events until `condition` holds.

        The event that makes it hold goes to `deferred`: the caller of a generator may pause at any
        event, and a pause must not fall between the end of a section and its closing readings.
        """
        while not condition():
            for worker, message in self._supervisor.poll():
                run_event = self._record(worker, message)
                if deferred is not None and condition():
                    deferred.append(run_event)
                else:
                    yield run_event

    def _record(self, worker: Worker, message: Message) -> RunEvent:
        """Update the state of the session, and return the message as an event of the run."""
        self._workers.update(worker.arm, message)
        run_event: RunEvent = (
            WorkerEnded(arm=worker.arm, process=worker.process, outcome=message)
            if isinstance(message, Outcome)
            else WorkerReported(arm=worker.arm, process=worker.process, worker_event=message)
        )
        self._headroom.update(run_event)
        return run_event
