"""Drive the resident workers of a run: import, build one at a time, time visits, stop.

A method is a generator of the events that occur while it runs. `execute` decides what comes next.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import (
    BuildStarted,
    Conditions,
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
from advisor.probing.side_by_side import ChooseBuild, SideBySideBuilds
from advisor.probing.worker_pool import WorkerPool
from advisor.probing.worker_process import BuildLimit, Worker
from probes import commands, protocol
from probes.events import Built, Created, Engagement
from probes.shape import Shape

#: Seconds between two looks at the memory while models are created.
POLL_SECONDS = 0.5
#: Size of the allocation with which the device's memory counter is checked.
KNOWN_BYTES = 256 << 20


class WorkerSession(WorkerPool):
    """The resident workers of a run, with what is measured of them."""

    def __init__(
        self,
        config: RunConfig,
        conditions_monitor: ConditionsMonitor | None = None,
        memory_monitor: DeviceMemoryMonitor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a session without workers; `clock` may stop while the run is paused."""
        super().__init__(config, MemoryHeadroom(memory_monitor), clock)
        self._conditions_monitor = conditions_monitor or ConditionsMonitor()
        self._memory_monitor = memory_monitor
        #: Arms that were built while others were. The memory in use does not show what such an arm
        #: uses: it is what its worker frees at its end.
        self._built_side_by_side: set[str] = set()
        self._conditions: dict[str, Conditions] = {}

    def start_reference(
        self, planned: Arm, process: int, seconds: float = math.inf, *, quick: bool = False
    ) -> Iterator[RunEvent]:
        """Start the reference worker, which runs the workflow of the arm, and let it import.

        It is killed if the outputs of one shape take longer than `seconds`. A `quick` one computes
        in float32 at most.
        """
        options = planned.options | ({protocol.QUICK_REFERENCE: True} if quick else {})
        reference = msgspec.structs.replace(planned, id=REFERENCE, options=options)
        yield from self.spawn(reference, process)
        if self.is_running(REFERENCE):
            self.workers[REFERENCE].correctness_seconds = seconds

    def create_models(self) -> Iterator[RunEvent]:
        """Wait until the reference worker has written weights and inputs.

        The other workers create the model meanwhile. Those that have not ended are killed and
        forgotten when half of the memory that was free is taken: the model is a large one.
        """
        create: list[str] = []
        self.compute_reference()
        is_half_taken = self.headroom.watch_half()
        while not self.is_ready_or_ended(REFERENCE):
            for arm in self.running():
                if arm not in {REFERENCE, *create} and self.workers[arm].has_imported:
                    create.append(arm)
                    self.send(arm, commands.CreateModel())
            yield from self.receive(POLL_SECONDS)
            if is_half_taken():
                for arm in filter(self.is_running, create):
                    if Created not in self.workers[arm].answers:
                        yield from self.forget(arm)

    def compute_reference(self) -> None:
        """Let the reference worker load, write inputs and outputs, and end."""
        for command in (commands.Build(), commands.ComputeOutputs()):
            self.send(REFERENCE, command)

    def finish_reference(self) -> Iterator[RunEvent]:
        if self.is_running(REFERENCE):
            if commands.ComputeOutputs not in self.workers[REFERENCE].sent:
                self.compute_reference()
            self.workers[REFERENCE].go_on()
            yield from self.run_until(lambda: not self.is_running(REFERENCE))

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
        processors = self.config.header.machine.cpu.usable_processors
        most = processors + processors // 2
        for planned, process in arms:
            yield from self.run_until(lambda: len(self.importing()) < most)
            if self.has_failed(REFERENCE):
                return
            if planned.id not in built:
                self.clear_caches(planned.id)
            self._built_side_by_side.discard(planned.id)
            yield from self.spawn(planned, process, repeat)
        if repeat:
            self.kill_standbys()
        yield from self.run_until(
            lambda: not any(awaited is None or arm in awaited for arm in self.importing())
        )

    def build_side_by_side(
        self, builds: SideBySideBuilds, choose: ChooseBuild, shall_pause: Callable[[], bool]
    ) -> Iterator[RunEvent]:
        """Go on with `builds` until none is left or they shall pause; `build` warms each arm up."""
        for run_event in builds.run(choose, shall_pause):
            if isinstance(run_event, BuildStarted):
                self._built_side_by_side.add(run_event.arm)
            elif isinstance(run_event, WorkerReported) and isinstance(
                run_event.worker_event, Built
            ):
                self.headroom.update_from(self.workers[run_event.arm].pid)
            yield run_event

    def build(
        self, arm: str, limit: BuildLimit | None = None, end: float = math.inf
    ) -> Iterator[RunEvent]:
        """Let one arm load, build, check its outputs and warm up while the others are idle.

        An arm that was built side by side with others only warms up, if it has not yet. A build
        that exceeds the limit is killed; one that has not ended at `end` is killed and forgotten.
        """
        if not self.is_running(arm):
            return
        worker = self.workers[arm]
        if limit is not None:
            worker.build_limit = limit
        deferred: list[RunEvent] = []
        yield from self._measure_build(worker, self._build(worker, deferred, end), deferred)
        if not self.is_ready_or_ended(arm):
            yield from self.forget(arm)
        else:
            deferred += self.find_and_pause_busy([arm])
        yield from deferred

    def _build(self, worker: Worker, deferred: list[RunEvent], end: float) -> Iterator[RunEvent]:
        # A worker that is prepared makes its last steps, even if it is late.
        end = math.inf if worker.is_prepared else end
        if not self.is_warmed_up(worker.arm):
            self.send(worker.arm, commands.WarmUp() if worker.is_prepared else commands.Build())
        yield from self.run_until(lambda: self.is_ready_or_ended(worker.arm), deferred, end)

    def _measure_build(
        self, worker: Worker, build: Iterator[RunEvent], deferred: list[RunEvent]
    ) -> Iterator[RunEvent]:
        """Yield the events of a build; put the memory that it adds into `deferred`."""
        if self._memory_monitor is None or worker.arm in self._built_side_by_side:
            yield from build
            return
        with self._memory_monitor.peak() as memory:
            for run_event in build:
                yield run_event
                if isinstance(run_event, WorkerReported) and isinstance(
                    run_event.worker_event, Engagement
                ):
                    memory.serves = True
                    memory.sample()
        measured = memory.result(worker.arm, worker.process)
        self.headroom.update(measured)
        deferred.append(measured)

    def _measure_end(self, arm: str, end: Iterator[RunEvent]) -> Iterator[RunEvent]:
        """Yield the events of the end of one worker, then the memory that it used and now frees."""
        monitor = self._memory_monitor
        if monitor is None or arm not in self._built_side_by_side or self.builds_standbys():
            yield from end
            return
        used = monitor.used_bytes()
        yield from end
        freed = added_bytes(monitor.used_bytes_after_release(used), used)
        yield DeviceMemory(
            arm=arm,
            process=self.process_number(arm),
            peak_bytes=freed,
            total_bytes=monitor.total_bytes,
            source="freed",
        )

    def prepare(self, arms: Iterable[str], end: float = math.inf) -> Iterator[RunEvent]:
        """Let several arms load and build at the same time, and warm up.

        A worker that has not built at `end`, by the clock of the session, is killed and forgotten.
        """
        waiting = [arm for arm in arms if self.is_running(arm)]
        for arm in waiting:
            self._built_side_by_side.add(arm)
            if not self.workers[arm].has_begun_build:
                self.send(arm, commands.Prepare())
        yield from self.run_until(
            lambda: all(self.is_built(arm) or not self.is_running(arm) for arm in waiting), end=end
        )
        for arm in waiting:
            if self.is_running(arm) and not self.is_built(arm):
                yield from self.forget(arm)
        yield from self.warm_up(waiting)

    def warm_up(self, arms: Iterable[str]) -> Iterator[RunEvent]:
        """Let the arms that are prepared warm up: on a GPU at the same time, on a CPU in turn.

        Each visit chooses its number of calls anew, so calls may be slower here.
        """
        built = list(filter(self.is_built, arms))
        prepared = list(filter(self.is_prepared, built))
        if self.config.question.device == "cpu":
            for arm in prepared:
                yield from self.build(arm)
            return
        for arm in prepared:
            self.send(arm, commands.WarmUp())
        yield from self.run_until(lambda: all(map(self.is_ready_or_ended, prepared)))
        yield from self.find_and_pause_busy(built)

    def check_memory(self) -> Iterator[RunEvent]:
        """Let the reference worker allocate a known amount, and read what the device counts."""
        if self._memory_monitor is None:
            return
        deferred: list[RunEvent] = []
        # The first allocation creates the worker's context, which takes memory too.
        yield from self.send_and_wait(REFERENCE, commands.Allocate(1))
        if not self.is_running(REFERENCE):
            return
        before = self._memory_monitor.used_bytes()
        self.headroom.idle_bytes = before or 0
        yield from self._send_and_defer(REFERENCE, commands.Allocate(KNOWN_BYTES), deferred)
        seen = increase(before, self._memory_monitor.used_bytes())
        yield from deferred
        if self.is_running(REFERENCE):
            yield MemoryChecked(allocated_bytes=KNOWN_BYTES, seen_bytes=seen)
            yield from self.send_and_wait(REFERENCE, commands.Allocate(0))

    def send_and_wait(self, arm: str, command: commands.Command) -> Iterator[RunEvent]:
        deferred: list[RunEvent] = []
        yield from self._send_and_defer(arm, command, deferred)
        yield from deferred

    def _send_and_defer(
        self, arm: str, command: commands.Command, deferred: list[RunEvent]
    ) -> Iterator[RunEvent]:
        """Send and wait; the last event goes to `deferred`, see `WorkerPool.run_until`."""
        self.send(arm, command)
        yield from self.run_until(lambda: self.is_ready_or_ended(arm), deferred)
        self.workers[arm].pause_busy()

    def measure_energy(
        self, arm: str, shape: Shape, command: commands.Command
    ) -> Iterator[RunEvent]:
        deferred: list[RunEvent] = []
        before = self._conditions_monitor.energy_joules()
        yield from self._send_and_defer(arm, command, deferred)
        joules = increase(before, self._conditions_monitor.energy_joules())
        yield from deferred
        yield EnergyMeasured(arm=arm, process=self.process_number(arm), shape=shape, joules=joules)

    def try_new_shapes(
        self, arms: Collection[str], limit_seconds: float | None = None
    ) -> Iterator[RunEvent]:
        """Let the arms try shapes that they were not built for, all at the same time.

        Their workers can only be stopped afterwards. With a limit each tries one batch size and one
        length, and is killed if one takes longer.
        """
        for arm in arms:
            if limit_seconds is not None:
                self.workers[arm].new_shape_seconds = limit_seconds
            self.send(arm, commands.TryNewShapes(short=limit_seconds is not None))
        yield from self.run_until(lambda: all(map(self.is_ready_or_ended, arms)))
        for arm in arms:
            self.workers[arm].pause_busy()

    def visit(self, arm: str, shape: Shape, number: int) -> Iterator[RunEvent]:
        """Time the calls of one visit; there is no `last_visit` if the worker ended meanwhile."""
        worker = self.workers[arm]
        deferred: list[RunEvent] = []
        before = self._conditions_monitor.read_counters(worker.pid)
        self.send(arm, commands.Visit(shape, number))
        yield from self.run_until(
            lambda: worker.last_visit is not None or not self.is_running(arm), deferred
        )
        worker.pause_busy()
        self._conditions[arm] = self._conditions_monitor.conditions_since(before, worker.pid)
        processes.wait_until_idle(worker.pid)
        yield from deferred

    def last_conditions(self, arm: str) -> Conditions:
        return self._conditions[arm]

    def stop(self, arms: Collection[str] | None = None) -> Iterator[RunEvent]:
        """Let all workers, or those of `arms`, check their outputs once more and exit."""
        stopping = [arm for arm in self.running() if arms is None or arm in arms]
        yield from self.check(stopping)
        # What each frees is the memory that it used.
        in_turn = [
            arm for arm in stopping if self._memory_monitor and arm in self._built_side_by_side
        ]
        for arm in filter(self.is_running, in_turn):
            yield from self._measure_end(arm, self._stop([arm]))
        yield from self._stop([arm for arm in stopping if arm not in in_turn])

    def _stop(self, arms: Collection[str]) -> Iterator[RunEvent]:
        for arm in filter(self.is_running, arms):
            self.send(arm, commands.Stop())
        yield from self.run_until(lambda: not any(map(self.is_running, arms)))
