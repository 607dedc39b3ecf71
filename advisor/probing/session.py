"""Drive the resident workers of a run: import, build one at a time, time blocks of calls, stop.

A method is a generator of the events that occur while it runs. The pipeline decides what comes
next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

import msgspec

from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import (
    BuildStarted,
    BusyWhileIdle,
    Conditions,
    EnergyMeasured,
    MemoryChecked,
    RunEvent,
    WorkerEnded,
    WorkerReported,
    WorkerSpawned,
)
from advisor.probing import idle
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.device_memory import (
    DeviceMemoryMonitor,
    MemoryHeadroom,
    increase,
)
from advisor.probing.run_config import RunConfig
from advisor.probing.side_by_side import ChooseBuild, SideBySideBuilds, confine
from advisor.probing.supervisor import Supervisor
from advisor.probing.worker_pool import ArmMemory, WorkerPool
from advisor.probing.worker_process import BuildLimit, Worker
from probes import protocol
from probes.wire.events import BlockTimed, Built
from probes.wire.outcome import Failure, Outcome
from probes.wire.shape import Shape

#: Seconds between two looks at the memory while models are created.
POLL_SECONDS = 0.5
#: Size of the allocation with which the device's memory counter is checked.
KNOWN_BYTES = 256 << 20
Result = TypeVar("Result")


class Session:
    """The resident workers of a run."""

    def __init__(
        self,
        supervisor: Supervisor,
        config: RunConfig,
        conditions_monitor: ConditionsMonitor,
        memory_monitor: DeviceMemoryMonitor | None = None,
    ) -> None:
        self._pool = WorkerPool(supervisor, config, MemoryHeadroom(memory_monitor))
        self._conditions_monitor = conditions_monitor
        self._memory_monitor = memory_monitor
        self._memory = ArmMemory(self._pool, memory_monitor)
        self._conditions: dict[str, Conditions] = {}
        self._computes_reference = False

    def start_reference(self, arm: Arm, process: int) -> Iterator[RunEvent]:
        """Start the reference worker, which runs the workflow of `arm`, and let it import."""
        yield from self._pool.spawn(msgspec.structs.replace(arm, id=REFERENCE), process)

    def create_models(self) -> Iterator[RunEvent]:
        """Wait until the reference worker has written weights and inputs.

        The other workers create the model meanwhile. Those that have not ended are killed and
        forgotten when half of the memory that was free is taken: the model is a large one.
        """
        workers, create = self._pool.workers, list[str]()
        self._compute_reference()
        is_half_taken = self._pool.headroom.watch_half()
        while not workers.is_ready_or_ended(REFERENCE):
            for arm in workers.running():
                if arm not in {REFERENCE, *create} and workers.has_imported(arm):
                    create.append(arm)
                    self._pool.send(workers[arm], "create")
            yield from self._pool.receive(POLL_SECONDS)
            if is_half_taken():
                for arm in filter(workers.is_creating, create):
                    yield from self._pool.forget(arm)

    def _compute_reference(self) -> None:
        """Let the reference worker load, write inputs and outputs, and end."""
        self._pool.workers.expect_ready(REFERENCE)
        for token in ("build", "outputs"):
            self._pool.supervisor.send(self._pool.workers[REFERENCE], token)
        self._computes_reference = True

    def finish_reference(self) -> Iterator[RunEvent]:
        """Wait until the reference worker has ended."""
        if self.is_running(REFERENCE):
            if not self._computes_reference:
                self._compute_reference()
            self._pool.supervisor.go_on([self._pool.workers[REFERENCE]])
            yield from self._pool.run_until(lambda: not self.is_running(REFERENCE))

    def start(
        self,
        arms: Iterable[tuple[Arm, int]],
        repeat: int = 0,
        built: Collection[str] = (),
        awaited: Collection[str] | None = None,
    ) -> Iterator[RunEvent]:
        """Start a worker for each arm and process number, and let it import.

        As many workers import at a time as there are processors. The arms in `built` keep the
        caches of their finished builds; the caches of other arms are removed, as an interrupted
        build may have left them. Wait for the imports of `awaited`, by default for all. Stop early
        when the reference worker has failed, because nothing can be compared without it.
        """
        processors = self._pool.config.machine.cpu.usable_processors
        for arm, process in arms:
            yield from self._pool.run_until(
                lambda: len(self._pool.workers.importing()) < processors
            )
            if self._pool.workers.has_failed(REFERENCE):
                return
            if arm.id not in built:
                self._pool.clear_caches(arm.id)
            self._memory.reset(arm.id)
            yield from self._pool.spawn(arm, process, repeat)
        if repeat:
            self._pool.end_standbys()
        workers = self._pool.workers
        yield from self._pool.run_until(
            lambda: not any(awaited is None or arm in awaited for arm in workers.importing())
        )

    def side_by_side(self, builds_at_once: int, repeated: Iterable[Arm] = ()) -> SideBySideBuilds:
        """Return the builds of a run, of which as many run at the same time.

        Workers for the repetition of the arms in `repeated` import meanwhile.
        """
        return SideBySideBuilds(self._pool, builds_at_once, repeated)

    def build_side_by_side(
        self, builds: SideBySideBuilds, choose: ChooseBuild, shall_pause: Callable[[], bool]
    ) -> Iterator[RunEvent]:
        """Go on with `builds` until none is left or they shall pause; `build` warms each arm up."""
        for run_event in builds.run(choose, shall_pause):
            if isinstance(run_event, BuildStarted):
                self._memory.add_side_by_side(run_event.arm)
            elif isinstance(run_event, WorkerReported) and isinstance(
                run_event.worker_event, Built
            ):
                self._pool.headroom.update_from(self._pool.workers[run_event.arm].pid)
            yield run_event

    def build(self, arm: str, limit: BuildLimit | None = None) -> Iterator[RunEvent]:
        """Let one arm load, build, check its outputs and warm up while the others are idle.

        An arm that was built side by side with others only warms up. A build that exceeds the
        limit is killed.
        """
        if not self.is_running(arm):
            return
        worker = self._pool.workers[arm]
        if limit is not None:
            worker.build_limit = limit
        deferred: list[RunEvent] = []
        yield from self._memory.measure_build(worker, self._build(worker, deferred), deferred)
        if self.is_running(arm):
            deferred += self._pause_busy_processes(worker)
        yield from deferred

    def prepare(self, arms: Iterable[str]) -> Iterator[RunEvent]:
        """Let several arms load and build at the same time; `build` warms each one up."""
        workers, waiting = self._pool.workers, [arm for arm in arms if self.is_running(arm)]
        for arm in waiting:
            self._memory.add_side_by_side(arm)
            self._pool.send(workers[arm], "build hold")
        yield from self._pool.run_until(
            lambda: all(self.is_prepared(arm) or not self.is_running(arm) for arm in waiting)
        )

    def _pause_busy_processes(self, worker: Worker) -> list[RunEvent]:
        processors = self._pool.busy_processes.find_and_pause(worker.arm, worker.directory)
        if not processors:
            return []
        return [BusyWhileIdle(arm=worker.arm, process=worker.process, processors=processors)]

    def _build(self, worker: Worker, deferred: list[RunEvent]) -> Iterator[RunEvent]:
        workers = self._pool.workers
        self._pool.send(worker, "warm" if workers.is_prepared(worker.arm) else "build")
        yield from self._pool.run_until(lambda: workers.is_ready_or_ended(worker.arm), deferred)

    def drop(self, arm: str, failure: Failure, process: int | None = None) -> Iterator[RunEvent]:
        """End the arm's worker; `failure` says why.

        Where no worker runs, report that the one with number `process` has ended.
        """
        if process is not None and not self.is_running(arm):
            yield WorkerSpawned(arm=arm, process=process)
            yield WorkerEnded(arm=arm, process=process, outcome=Outcome(failure))
        elif self.is_running(arm):
            worker = self._pool.workers[arm]
            self._pool.supervisor.kill(worker)
            worker.outcome = Outcome(failure)
            yield self._pool.record(worker, worker.outcome)

    def check_memory(self) -> Iterator[RunEvent]:
        """Let the reference worker allocate a known amount, and read what the device counts."""
        if self._memory_monitor is None:
            return
        deferred: list[RunEvent] = []
        # The first allocation creates the worker's context, which takes memory too.
        yield from self.send_and_wait(REFERENCE, "allocate 1")
        if not self.is_running(REFERENCE):
            return
        before = self._memory_monitor.used_bytes()
        self._pool.headroom.idle_bytes = before or 0
        yield from self._send_and_defer(REFERENCE, f"allocate {KNOWN_BYTES}", deferred)
        seen = increase(before, self._memory_monitor.used_bytes())
        yield from deferred
        if self.is_running(REFERENCE):
            yield MemoryChecked(allocated_bytes=KNOWN_BYTES, seen_bytes=seen)
            yield from self.send_and_wait(REFERENCE, "allocate 0")

    def send_and_wait(self, arm: str, token: str) -> Iterator[RunEvent]:
        """Send a token to the arm's worker, and wait until it is ready again or has ended."""
        deferred: list[RunEvent] = []
        yield from self._send_and_defer(arm, token, deferred)
        yield from deferred

    def _send_and_defer(self, arm: str, token: str, deferred: list[RunEvent]) -> Iterator[RunEvent]:
        """Do the same; the last event goes to `deferred`, see `WorkerPool.run_until`."""
        self._pool.workers.expect_ready(arm)
        self._pool.send(self._pool.workers[arm], token)
        yield from self._pool.run_until(lambda: self._pool.workers.is_ready_or_ended(arm), deferred)
        self._pool.busy_processes.pause(arm)

    def _with_energy(self, arm: str, shape: Shape, token: str) -> Iterator[RunEvent]:
        """Do the same, and report the energy that this used."""
        deferred: list[RunEvent] = []
        before = self._conditions_monitor.energy_joules()
        yield from self._send_and_defer(arm, token, deferred)
        joules = increase(before, self._conditions_monitor.energy_joules())
        yield from deferred
        process = self.process_number(arm)
        yield EnergyMeasured(arm=arm, process=process, shape=shape, joules=joules)

    def try_new_shapes(self, arm: str, limit_seconds: float | None = None) -> Iterator[RunEvent]:
        """Let the arm try shapes that it was not built for; its worker ends after them.

        With a limit it tries one batch size and one length, and is killed if one takes longer.
        """
        worker, token = self._pool.workers[arm], "new-shapes"
        if limit_seconds is not None:
            worker.new_shape_seconds = limit_seconds
            token = f"new-shapes {protocol.SHORT}"
        deferred: list[RunEvent] = []
        trials = self._send_and_defer(arm, token, deferred)
        yield from self._memory.measure_end(arm, trials)
        yield from deferred

    def visit(self, arm: str, shape: Shape, number: int) -> Iterator[RunEvent]:
        """Time one block of calls; `last_visit` and `last_conditions` return its result.

        There is no result if the worker ended meanwhile.
        """
        worker = self._pool.workers[arm]
        self._pool.workers.expect_visit(arm)
        deferred: list[RunEvent] = []
        before = self._conditions_monitor.read_counters(worker.pid)
        self._pool.send(worker, f"visit {shape} {number}")
        yield from self._pool.run_until(
            lambda: self._pool.workers.is_visited_or_ended(arm), deferred
        )
        self._pool.busy_processes.pause(arm)
        self._conditions[arm] = self._conditions_monitor.conditions_since(before, worker.pid)
        idle.wait_until_idle(worker.pid)
        yield from deferred

    def sustain(self, arm: str, shape: Shape, seconds: float) -> Iterator[RunEvent]:
        """Call the arm without a pause for `seconds`, and report the energy that this used."""
        yield from self._with_energy(arm, shape, f"sustain {shape} {seconds}")

    # Servers

    def confine(self, arm: str, processors: Collection[int]) -> None:
        """Let the arm's worker, and what it starts from now on, run on `processors` only."""
        confine(self._pool.workers[arm].directory, processors)

    def probe(self, arm: str, concurrency: int, seconds: float) -> Iterator[RunEvent]:
        """Keep so many requests at the arm's server for `seconds`, and report the energy."""
        yield from self._with_energy(arm, Shape(concurrency), f"probe {concurrency} {seconds:g}")

    def start_sampling(self, arm: str, seconds: float) -> None:
        """Let the worker check a text of its server every so many seconds."""
        self._pool.send(self._pool.workers[arm], f"sample {seconds:.3f}")

    def end_sampling(self, arm: str) -> Iterator[RunEvent]:
        """Wait until the worker has checked its last text; a wrong one has ended it."""
        yield from self.send_and_wait(arm, "enough")

    def under_load(self, arm: str, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, which sends requests to the server of the arm."""
        self._pool.busy_processes.resume(arm)
        return work()

    # States

    def last_visit(self, arm: str) -> BlockTimed | None:
        return self._pool.workers.last_visit(arm)

    def last_conditions(self, arm: str) -> Conditions:
        return self._conditions[arm]

    def process_number(self, arm: str) -> int:
        """Return the number of the arm's process that was started last."""
        return self._pool.workers[arm].process

    def has_memory_headroom(self, running_builds: int = 0) -> bool:
        """Return whether there is memory for one more worker next to the running builds."""
        return self._pool.headroom.fits_another_worker(running_builds)

    def has_memory_for(self, size: int) -> bool:
        """Return whether so many bytes are free; True where memory cannot be read."""
        return self._pool.headroom.has_free(size)

    def has_failed(self, arm: str) -> bool:
        """Return whether the arm's last worker ended in a failure, or could not be started."""
        return self._pool.workers.has_failed(arm)

    def check(self, arms: Collection[str]) -> Iterator[RunEvent]:
        """Let running workers check their outputs once more, at the same time.

        They do not check again before they end or try new shapes, unless they are timed meanwhile.
        """
        workers = self._pool.workers
        for arm in arms:
            workers.expect_ready(arm)
            self._pool.send(workers[arm], "check")
        yield from self._pool.run_until(lambda: all(map(workers.is_ready_or_ended, arms)))

    def stop(self, arms: Collection[str] | None = None) -> Iterator[RunEvent]:
        """Let all workers, or those of `arms`, check their outputs once more and exit."""
        workers = self._pool.workers
        stopping = [arm for arm in workers.running() if arms is None or arm in arms]
        # These end one after the other, but check at the same time.
        in_turn = [arm for arm in stopping if self._memory.is_measured_at_end(arm)]
        yield from self.check(in_turn)
        for arm in filter(self.is_running, in_turn):
            yield from self._memory.measure_end(arm, self._stop([arm]))
        yield from self._stop([arm for arm in stopping if arm not in in_turn])

    def _stop(self, arms: Collection[str]) -> Iterator[RunEvent]:
        for arm in arms:
            self._pool.send(self._pool.workers[arm], "stop")
        yield from self._pool.run_until(lambda: not any(map(self.is_running, arms)))

    def is_running(self, arm: str) -> bool:
        return self._pool.workers.is_running(arm)

    def has_started(self, arm: str) -> bool:
        return self._pool.workers.has_started(arm)

    def is_prepared(self, arm: str) -> bool:
        return self._pool.workers.is_prepared(arm)

    def is_warmed_up(self, arm: str) -> bool:
        return self._pool.workers.is_warmed_up(arm)
