"""Build several arms at the same time, each with processors of its own.

Nothing is timed while they run: the processes of unfinished builds are suspended during a race.

On a GPU the build is confined to its processors. On the CPU it is not, because many stacks choose
the threads of the compiled program by the processors that they see while they build. There the
number of builds and the threads of the compilers are limited alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator

from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import BuildStarted, RunEvent
from advisor.probing.processes import process_tree
from advisor.probing.worker_pool import WorkerPool
from advisor.probing.worker_process import BuildLimit, Stage, Worker
from probes import commands


@dataclasses.dataclass(frozen=True)
class NextBuild:
    planned: Arm
    #: Number of the process that is started; None if the arm's worker runs already.
    process: int | None = None
    limit: BuildLimit | None = None
    #: Whether a new process finds the caches of an earlier build.
    keeps_caches: bool = False
    #: Seconds that all builds that have not finished, this one included, are expected to take.
    expected_seconds_left: float | None = None


#: Returns the next build, given the number of builds that run; None while no further one may start.
ChooseBuild = Callable[[int], NextBuild | None]
#: Seconds between two looks whether the builds shall pause.
POLL_SECONDS = 0.5
#: Threads of a build's compilers on a CPU, where it has as many processors.
FEWEST_COMPILE_THREADS = 4
MOST_STANDBYS = 6


class ProcessorShares:
    """Equal shares of the processors, one for each build that runs."""

    def __init__(self, processors: Iterable[int], builds_at_once: int) -> None:
        self._processors = sorted(processors)
        self.count = len(self._processors)
        self.builds_at_once = max(1, min(builds_at_once, self.count))
        self._builds: list[str] = []
        self._shares = self.builds_at_once

    def has_free(self) -> bool:
        return len(self._builds) < self.builds_at_once

    def take(self, arm: str) -> None:
        self._builds.append(arm)
        self._shares = max(self._shares, len(self._builds))

    def release(self, arm: str) -> None:
        if arm in self._builds:
            self._builds.remove(arm)

    def divide(self) -> bool:
        """Divide all processors among the builds that run; return whether the shares change."""
        shares, self._shares = self._shares, max(len(self._builds), 1)
        return shares != self._shares

    def of(self, arm: str) -> frozenset[int]:
        """Return its processors; those that remain after the division go to the first builds."""
        return frozenset(self._processors[self._builds.index(arm) :: self._shares])


def confine(directory: pathlib.Path, processors: Collection[int]) -> None:
    """Let all threads of the worker in this control directory run on `processors` only."""
    for process in process_tree(directory):
        with contextlib.suppress(OSError):
            for thread in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(thread.name), processors)


class SideBySideBuilds:
    """The builds of a run; they go on between its races."""

    def __init__(self, pool: WorkerPool, builds_at_once: int, repeated: Iterable[Arm] = ()) -> None:
        """Share the processors among the builds.

        `repeated` are the arms that may be measured again in fresh processes, the likely first;
        these processes, the standbys, import while processors are free.
        """
        config = pool.config
        usable, visible = config.header.machine.cpu.usable_processors, os.sched_getaffinity(0)
        self.builds_at_once = builds_at_once
        self._pool = pool
        self._shares = ProcessorShares(sorted(visible)[:usable], builds_at_once)
        self._is_on_cpu = config.question.device == "cpu"
        #: Whether builds get processors of their own. The kernel chooses better if a CPU quota is
        #: below the number of visible processors.
        self._confines = not self._is_on_cpu and len(visible) <= usable
        #: Builds that have begun and not finished; their workers import first.
        self._builds: dict[str, NextBuild] = {}
        self._repeated = tuple(repeated)
        self._is_half_taken = pool.headroom.watch_half() if self._repeated else lambda: True

    def run(self, choose: ChooseBuild, shall_pause: Callable[[], bool]) -> Iterator[RunEvent]:
        """Build until no build runs and none may start, or until the builds shall pause.

        On a GPU, workers that have finished warm up beside the other builds; on a CPU they wait.
        All others are suspended.
        """
        for worker in self._workers():
            worker.go_on()
        while True:
            yield from self._start_builds(choose)
            for arm in filter(self._pool.is_running, self.running):
                worker = self._pool.workers[arm]
                if worker.stage >= Stage.IMPORTED and not worker.build_commands:
                    yield self._begin(worker, self._builds[arm])
                    self._pool.send(arm, commands.Prepare())
            if not self.running or shall_pause():
                break
            self._start_standbys()
            yield from self._pool.receive(POLL_SECONDS)
            if not self._is_on_cpu:
                for arm in filter(self._pool.is_prepared, self._builds):
                    self._pool.send(arm, commands.WarmUp())
            self.forget_ended()
            if not self._confines:
                self._make_room_for_checks()
        for worker in self._workers():
            worker.suspend()
        # A message that was on its way may say that a build has finished.
        yield from self._pool.receive(0.0)
        self.forget_ended()

    @property
    def running(self) -> list[str]:
        """The arms whose builds have begun and not finished, suspended ones included."""
        return [*self._builds]

    def forget_ended(self) -> None:
        """Release the processors of builds that have finished or whose workers were ended."""
        for arm in filter(self._pool.is_built_or_ended, self.running):
            del self._builds[arm]
            self._shares.release(arm)
            if self._pool.is_running(arm):
                worker = self._pool.workers[arm]
                # It may have been suspended before the message that it has finished was read.
                worker.go_on()
                if self._confines:
                    confine(worker.directory, os.sched_getaffinity(0))

    def _workers(self) -> list[Worker]:
        """Return the workers that run between the races, reference and standbys included."""
        arms, standbys = {REFERENCE, *self._builds}, self._pool.standbys.workers.values()
        found = [each for each in self._pool.running() if each.arm in arms]
        return [*found, *(each for each in standbys if each.outcome is None)]

    def _start_standbys(self) -> None:
        """Start standbys while processors are free.

        On a GPU they load their weights, and build each shape once it is in the caches of the arm.
        """
        pool, standbys = self._pool, self._pool.standbys
        busy = sum(each.is_busy for each in standbys.workers.values()) + pool.is_running(REFERENCE)
        free = self.builds_at_once - len(self.running) - busy
        for planned in self._repeated:
            standby = standbys.workers.get(planned.id)
            if not pool.is_running(planned.id):
                standbys.end(planned.id)
                continue
            first = pool.workers[planned.id]
            if standby and standby.build_commands:
                standbys.build(standby, first.built_shapes)
            elif free <= 0 or self._is_half_taken():
                continue
            elif standby is None and len(standbys.workers) < MOST_STANDBYS:
                standbys.add(planned, first.process + 1)
                free -= 1
            elif standby and standby.is_waiting and self._fits(planned):
                if first.built_shapes:
                    standbys.build(standby, first.built_shapes)
                elif standby.stage < Stage.OPENED:
                    pool.supervisor.send(standby, commands.OpenModel())
                free -= standby.is_busy

    def _fits(self, planned: Arm) -> bool:
        """Return whether a standby of the arm may use the GPU beside what is built now."""
        beside = (each.planned.builds_alone for each in self._builds.values())
        is_alone = planned.builds_alone or any(beside)
        fits = self._pool.headroom.fits_another_worker(len(self.running) + 1)
        return not (self._is_on_cpu or is_alone) and fits

    def _start_builds(self, choose: ChooseBuild) -> Iterator[RunEvent]:
        has_started = False
        while self._shares.has_free():
            build = choose(len(self.running) + self._pool.standbys.are_building())
            if build is None:
                break
            has_started = True
            self._shares.take(build.planned.id)
            if build.process is not None:
                if not build.keeps_caches:
                    self._pool.clear_caches(build.planned.id)
                # A build may get the processors of those that end before it.
                most = self._shares.count if self._confines else FEWEST_COMPILE_THREADS
                own = len(self._shares.of(build.planned.id))
                threads = max(own, min(self._shares.count, most))
                yield from self._pool.spawn(build.planned, build.process, compile_threads=threads)
            self._builds[build.planned.id] = build
            self.forget_ended()
        if self._confines and (self._shares.divide() or has_started):
            for arm in filter(self._pool.is_running, self.running):
                confine(self._pool.workers[arm].directory, self._shares.of(arm))

    def _begin(self, worker: Worker, build: NextBuild) -> BuildStarted:
        worker.built_beside_others = True
        if build.limit is not None:
            worker.build_limit = build.limit
        return BuildStarted(
            arm=worker.arm,
            process=worker.process,
            processors=len(self._shares.of(worker.arm)),
            builds_at_once=self._shares.builds_at_once,
            expected_seconds=build.planned.expected_build_seconds,
            expected_seconds_left=build.expected_seconds_left,
        )

    def _make_room_for_checks(self) -> None:
        """Let the next builds begin, but on a CPU suspend them while outputs are checked.

        The threads of the checked program would wait for one that does not run. Before the
        reference is known, a check waits.
        """
        pool = self._pool
        checked = {arm for arm in self._builds if pool.workers[arm].phase == "correctness"}
        for arm in checked:
            self._shares.release(arm)
        are_alone = self._is_on_cpu and bool(checked) and not pool.is_running(REFERENCE)
        for worker in self._workers():
            if are_alone and worker.arm not in checked:
                worker.suspend()
            else:
                worker.go_on()
