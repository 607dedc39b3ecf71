"""Drive the resident workers of a run: import, build one at a time, time visits, stop.

A method is a generator of the events that occur while it runs. `execute` decides what comes next.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec
from typing_extensions import Self

from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import (
    BusyWhileIdle,
    DeviceMemory,
    EnergyMeasured,
    MemoryChecked,
    RunEvent,
    WorkerReported,
)
from advisor.probing import processes
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.device_memory import DeviceMemoryMonitor, MemoryHeadroom, added_bytes, increase
from advisor.probing.run_config import RunConfig
from advisor.probing.worker_pool import WorkerPool
from advisor.probing.worker_process import BuildLimit, Stage, Worker
from probes import commands, protocol
from probes.commands import Command
from probes.events import Engagement
from probes.shape import Shape

#: Seconds between two looks at the memory while models are created.
POLL_SECONDS = 0.5
#: Size of the allocation with which the device's memory counter is checked.
KNOWN_BYTES = 256 << 20


class WorkerSession:
    """What the workers in `pool` do, one by one or together, and what is measured meanwhile.

    All of them are killed when its context ends.
    """

    def __init__(
        self,
        config: RunConfig,
        conditions_monitor: ConditionsMonitor | None = None,
        memory_monitor: DeviceMemoryMonitor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a session without workers; `clock` may stop while the run is paused."""
        self.config = config
        self.pool = WorkerPool(config, MemoryHeadroom(memory_monitor), clock)
        self._conditions_monitor = conditions_monitor or ConditionsMonitor()
        self._memory_monitor = memory_monitor
        self._is_on_cpu = config.question.device == "cpu"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.supervisor.close()

    def stop_compiling(self) -> None:
        """Stop the compilation of the packages that the workers import."""
        if self.config.bytecode:
            self.config.bytecode.stop()

    def start_reference(
        self, planned: Arm, process: int, seconds: float = math.inf, *, quick: bool = False
    ) -> Iterator[RunEvent]:
        """Start the reference worker, which runs the workflow of the arm, and let it import.

        It is killed if the outputs of one shape take longer than `seconds`. A `quick` one computes
        in float32 at most.
        """
        options = planned.options | ({protocol.QUICK_REFERENCE: True} if quick else {})
        reference = msgspec.structs.replace(planned, id=REFERENCE, options=options)
        yield from self.pool.spawn(reference, process)
        if self.pool.is_running(REFERENCE):
            self.pool.workers[REFERENCE].correctness_seconds = seconds

    def create_models(self) -> Iterator[RunEvent]:
        """Wait until the reference worker has written weights and inputs.

        The other workers create the model meanwhile. Those that have not ended are killed and
        forgotten when half of the memory that was free is taken: the model is a large one.
        """
        self.compute_reference()
        is_half_taken = self.pool.headroom.watch_half()
        while not self.pool.is_ready_or_ended(REFERENCE):
            for worker in self.pool.running():
                if worker.is_waiting and worker.stage == Stage.IMPORTED:
                    self.pool.send(worker.arm, commands.CreateModel())
            yield from self.pool.receive(POLL_SECONDS)
            if is_half_taken():
                for worker in self.pool.running():
                    is_creating = worker.is_busy and worker.stage == Stage.IMPORTED
                    if is_creating and not worker.build_commands:
                        yield from self.pool.forget(worker.arm)

    def compute_reference(self) -> None:
        """Let the reference worker load, write inputs and outputs, and end."""
        for command in (commands.Build(), commands.ComputeOutputs()):
            self.pool.send(REFERENCE, command)

    def finish_reference(self) -> Iterator[RunEvent]:
        if self.pool.is_running(REFERENCE):
            if not self.pool.workers[REFERENCE].build_commands:
                self.compute_reference()
            self.pool.workers[REFERENCE].go_on()
            yield from self.pool.run_until(lambda: not self.pool.is_running(REFERENCE))

    def check_memory(self) -> Iterator[RunEvent]:
        """Let the reference worker allocate a known amount, and read what the device counts."""
        monitor = self._memory_monitor
        if monitor is None:
            return
        deferred: list[RunEvent] = []
        # The first allocation creates the worker's context, which takes memory too.
        yield from self.pool.send_and_wait([REFERENCE], commands.Allocate(1))
        if not self.pool.is_running(REFERENCE):
            return
        before = monitor.used_bytes()
        self.pool.headroom.idle_bytes = before or 0
        yield from self.pool.send_and_wait([REFERENCE], commands.Allocate(KNOWN_BYTES), deferred)
        seen = increase(before, monitor.used_bytes())
        yield from deferred
        if self.pool.is_running(REFERENCE):
            yield MemoryChecked(allocated_bytes=KNOWN_BYTES, seen_bytes=seen)
            yield from self.pool.send_and_wait([REFERENCE], commands.Allocate(0))

    def start(
        self,
        arms: Iterable[tuple[Arm, int]],
        repeat: int = 0,
        built: Collection[str] = (),
        awaited: Collection[str] | None = None,
    ) -> Iterator[RunEvent]:
        """Start a worker for each arm and process number, and let it import.

        Half as many workers again as there are processors import at a time: with as many, an odd
        number of workers would leave processors idle during the last import. The arms in `built`
        keep the caches of their finished builds; the caches of other arms are removed, as an
        interrupted build may have left them. Wait for the imports of `awaited`, by default for all.
        Stop early when the reference worker has failed, because nothing can be compared without it.
        """
        pool, processors = self.pool, self.config.header.machine.cpu.usable_processors
        most = processors + processors // 2
        for planned, process in arms:
            yield from pool.run_until(lambda: len(pool.importing()) < most)
            if pool.has_failed(REFERENCE):
                return
            if planned.id not in built:
                pool.clear_caches(planned.id)
            yield from pool.spawn(planned, process, repeat)
        if repeat:
            pool.standbys.end_all()
        yield from pool.run_until(
            lambda: not any(awaited is None or arm in awaited for arm in pool.importing())
        )

    def build(
        self, arm: str, limit: BuildLimit | None = None, end: float = math.inf
    ) -> Iterator[RunEvent]:
        """Let one arm load, build, check its outputs and warm up while the others are idle.

        An arm that was built side by side with others only warms up, if it has not yet. A build
        that exceeds the limit is killed; one that has not ended at `end` is killed and forgotten.
        """
        if not self.pool.is_running(arm):
            return
        worker = self.pool.workers[arm]
        if limit is not None:
            worker.build_limit = limit
        deferred: list[RunEvent] = []
        # A worker that is prepared makes its last steps, even if it is late.
        is_prepared = worker.is_prepared
        monitor = None if worker.built_beside_others else self._memory_monitor
        with monitor.peak() if monitor else contextlib.nullcontext() as memory:
            if not self.pool.is_warmed_up(arm):
                self.pool.send(arm, commands.WarmUp() if is_prepared else commands.Build())
            for run_event in self.pool.run_until(
                lambda: self.pool.is_ready_or_ended(arm), deferred, math.inf if is_prepared else end
            ):
                yield run_event
                reported = isinstance(run_event, WorkerReported) and run_event.worker_event
                if memory and isinstance(reported, Engagement):
                    memory.serves = True
                    memory.sample()
        if memory:
            measured = memory.result(arm, worker.process)
            self.pool.headroom.update(measured)
            deferred.append(measured)
        if not self.pool.is_ready_or_ended(arm):
            yield from self.pool.forget(arm)
        else:
            deferred += _find_and_pause_busy([worker])
        yield from deferred

    def prepare(self, arms: Iterable[str], end: float = math.inf) -> Iterator[RunEvent]:
        """Let several arms load and build at the same time, and warm up.

        A worker that has not built at `end`, by the clock of the session, is killed and forgotten.
        """
        pool = self.pool
        waiting = list(filter(pool.is_running, arms))
        for arm in waiting:
            pool.workers[arm].built_beside_others = True
            if not pool.workers[arm].build_commands:
                pool.send(arm, commands.Prepare())
        yield from pool.run_until(lambda: all(map(pool.is_built_or_ended, waiting)), end=end)
        for arm in itertools.filterfalse(pool.is_built_or_ended, waiting):
            yield from pool.forget(arm)
        yield from self.warm_up(waiting)

    def warm_up(self, arms: Iterable[str]) -> Iterator[RunEvent]:
        """Let the arms that are prepared warm up: on a GPU at the same time, on a CPU in turn.

        Each visit chooses its number of calls anew, so calls may be slower here.
        """
        built = list(filter(self.pool.is_built, arms))
        prepared = list(filter(self.pool.is_prepared, built))
        if self._is_on_cpu:
            for arm in prepared:
                yield from self.build(arm)
            return
        yield from self.pool.send_and_wait(prepared, commands.WarmUp())
        yield from _find_and_pause_busy([self.pool.workers[arm] for arm in built])

    def visit(self, arm: str, shape: Shape, number: int) -> Iterator[RunEvent]:
        """Time the calls of one visit; there is no `last_visit` if the worker ended meanwhile."""
        worker = self.pool.workers[arm]
        deferred: list[RunEvent] = []
        before = self._conditions_monitor.read_counters(worker.pid)
        self.pool.send(arm, commands.Visit(shape, number))
        yield from self.pool.run_until(
            lambda: worker.last_visit is not None or worker.outcome is not None, deferred
        )
        worker.pause_busy()
        worker.last_conditions = self._conditions_monitor.conditions_since(before, worker.pid)
        processes.wait_until_idle(worker.pid)
        yield from deferred

    def measure_energy(self, arm: str, shape: Shape, command: Command) -> Iterator[RunEvent]:
        deferred: list[RunEvent] = []
        before = self._conditions_monitor.energy_joules()
        yield from self.pool.send_and_wait([arm], command, deferred)
        joules = increase(before, self._conditions_monitor.energy_joules())
        yield from deferred
        process = self.pool.workers[arm].process
        yield EnergyMeasured(arm=arm, process=process, shape=shape, joules=joules)

    def try_new_shapes(
        self, arms: Collection[str], limit_seconds: float | None = None
    ) -> Iterator[RunEvent]:
        """Let the arms try shapes that they were not built for, all at the same time.

        Their workers can only be stopped afterwards. With a limit each tries one batch size and one
        length, and is killed if one takes longer.
        """
        for arm in arms:
            self.pool.workers[arm].new_shape_seconds = limit_seconds or math.inf
        command = commands.TryNewShapes(short=limit_seconds is not None)
        yield from self.pool.send_and_wait(arms, command)

    def check(self, arms: Collection[str]) -> Iterator[RunEvent]:
        """Let running workers check their outputs once more; on a CPU, one after the other.

        They do not check again before they end or try new shapes, unless they are timed meanwhile.
        """
        for together in [[arm] for arm in arms] if self._is_on_cpu else [arms]:
            yield from self.pool.send_and_wait(together, commands.Check())

    def stop(self, arms: Collection[str] | None = None) -> Iterator[RunEvent]:
        """Let all workers, or those of `arms`, check their outputs once more and exit."""
        stopping = [each for each in self.pool.running() if arms is None or each.arm in arms]
        yield from self.check([each.arm for each in stopping])
        # What each frees is the memory that it used.
        for worker in stopping:
            if worker.outcome is None and worker.built_beside_others:
                yield from self._measure_end(worker)
        yield from self._stop(stopping)

    def _stop(self, workers: Collection[Worker]) -> Iterator[RunEvent]:
        for worker in workers:
            if worker.outcome is None:
                self.pool.send(worker.arm, commands.Stop())
        yield from self.pool.run_until(lambda: all(each.outcome is not None for each in workers))

    def _measure_end(self, worker: Worker) -> Iterator[RunEvent]:
        """Stop one worker where that shows the memory that it used, which it frees now."""
        monitor = self._memory_monitor
        if monitor is None or self.pool.standbys.are_building():
            return
        used = monitor.used_bytes()
        yield from self._stop([worker])
        freed = added_bytes(monitor.used_bytes_after_release(used), used)
        yield DeviceMemory(
            arm=worker.arm,
            process=worker.process,
            peak_bytes=freed,
            total_bytes=monitor.total_bytes,
            source="freed",
        )


def _find_and_pause_busy(workers: Iterable[Worker]) -> Iterator[BusyWhileIdle]:
    """Look once for the processes of workers that are busy while all wait, and pause them."""
    unknown = [each for each in workers if each.outcome is None and each.busy is None]
    trees = [processes.process_tree(each.directory) for each in unknown]
    shares = processes.find_busy_processes(itertools.chain(*trees))
    for worker, tree in zip(unknown, trees, strict=True):
        worker.busy = tuple(each for each in tree if each in shares)
        worker.pause_busy()
        if worker.busy:
            used = sum(shares[each] for each in worker.busy)
            yield BusyWhileIdle(arm=worker.arm, process=worker.process, processors=used)
