"""The worker processes of a session: their starts, commands, reports and states."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import pathlib
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator

from typing_extensions import Self

from advisor.domain.plan import Arm, arm_directory_name
from advisor.domain.run_events import (
    BusyWhileIdle,
    RunEvent,
    WorkerEnded,
    WorkerReported,
    WorkerSpawned,
)
from advisor.probing.device_memory import MemoryHeadroom
from advisor.probing.env_variables import worker_environment
from advisor.probing.processes import find_busy_processes, process_tree
from advisor.probing.run_config import RunConfig
from advisor.probing.supervisor import MAKE_ROOM, Message, Supervisor
from advisor.probing.worker_process import Worker
from advisor.store.files import report_unwritable
from probes import commands, protocol
from probes.events import Created, Imported, Prepared, Ready, Visited
from probes.outcome import Failure, Outcome


@dataclasses.dataclass
class Standby:
    """A worker for the repetition of an arm, which has imported its stack before it is needed.

    It has created the model too, as far as it can without its weights, loads these, or builds it
    and warms up. Its messages wait until the repetition begins.
    """

    worker: Worker
    messages: list[Message] = dataclasses.field(default_factory=list)
    #: How many shapes it may build.
    released_shapes: int = 1

    @property
    def is_busy(self) -> bool:
        worker = self.worker
        is_idle = worker.is_waiting or worker.suspended_since is not None
        return worker.outcome is None and not is_idle

    @property
    def can_build(self) -> bool:
        return self.worker.is_waiting and not self.worker.has_begun_build


class WorkerPool:
    """The workers of a session, and the state of each arm's last one.

    All of them are killed when its context ends.
    """

    def __init__(
        self, config: RunConfig, headroom: MemoryHeadroom, clock: Callable[[], float]
    ) -> None:
        self._clock = clock
        self.supervisor = Supervisor(config.deadlines, clock=clock)
        self.config = config
        self.headroom = headroom
        #: The last worker of each arm.
        self.workers: dict[str, Worker] = {}
        self._unstartable: set[str] = set()
        self.standbys: dict[str, Standby] = {}
        #: What the processes of snippets run, by name.
        self.snippets: dict[str, protocol.SnippetOptions] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.supervisor.close()

    def spawn(
        self, planned: Arm, process: int, repeat: int = 0, compile_threads: int | None = None
    ) -> Iterator[RunEvent]:
        """Start a worker of the arm; compilers use `compile_threads`, or as many as they choose.

        A standby of the same process is used instead.
        """
        standby = self._take_standby(planned.id, process)
        threads = compile_threads
        worker = standby.worker if standby else self._start(planned, process, repeat, threads)
        self.workers.pop(planned.id, None)
        self._unstartable.discard(planned.id)
        yield WorkerSpawned(arm=planned.id, process=process, repeat=repeat)
        if isinstance(worker, Worker):
            self.workers[planned.id] = worker
        else:
            self._unstartable.add(planned.id)
            yield WorkerEnded(arm=planned.id, process=process, outcome=Outcome(worker))
        if standby:
            for message in standby.messages:
                yield self.record(standby.worker, message)

    def add_standby(self, planned: Arm, process: int) -> None:
        worker = self._start(planned, process, repeat=1)
        if isinstance(worker, Worker):
            self.standbys[planned.id] = Standby(worker)

    def add_standbys(self, arms: Iterable[tuple[Arm, int]], built: Collection[str] = ()) -> None:
        """Start them, those in `built` with their builds, and let all standbys go on."""
        for planned, process in arms:
            if planned.id not in self.standbys:
                self.add_standby(planned, process)
        for arm, standby in self.standbys.items():
            if standby.worker.outcome is None:
                standby.worker.go_on()
                if arm in built or standby.worker.has_begun_build:
                    self.build_standby(standby, len(self.config.question.shapes))

    def build_standby(self, standby: Standby, shapes: int) -> None:
        """Let it build this many shapes, which are in the caches of its arm."""
        shapes = min(shapes, len(self.config.question.shapes))  # a worker may report too many
        if not standby.worker.has_begun_build:
            self.supervisor.send(standby.worker, commands.Prepare(waits=True))
        while standby.released_shapes < shapes:
            standby.released_shapes += 1
            self.supervisor.send(standby.worker, commands.BuildNext())

    def stop_compiling(self) -> None:
        """Stop the compilation of the packages that the workers import."""
        if self.config.bytecode:
            self.config.bytecode.stop()

    def kill_standbys(self) -> None:
        for standby in self.standbys.values():
            self.supervisor.kill(standby.worker)
        self.standbys.clear()

    def builds_standbys(self) -> bool:
        """Return whether any loads its weights or builds."""
        standbys = self.standbys.values()
        return any(each.is_busy and Created in each.worker.answers for each in standbys)

    def _take_standby(self, arm: str, process: int) -> Standby | None:
        """Return the standby of the arm, and let it go on; end one of another process number."""
        standby = self.standbys.pop(arm, None)
        if standby is None:
            return None
        if standby.worker.process != process or standby.worker.outcome is not None:
            self.supervisor.kill(standby.worker)
            return None
        standby.worker.go_on()
        if standby.worker.has_begun_build:
            self.build_standby(standby, len(self.config.question.shapes))
        return standby

    def _start(
        self, planned: Arm, process: int, repeat: int, compile_threads: int | None = None
    ) -> Worker | Failure:
        config = self.config
        directory = config.arms_directory / arm_directory_name(planned.id) / str(process)
        shutil.rmtree(directory, ignore_errors=True)
        scratch = self.scratch_directory(planned.id)
        shared = config.scratch_directory / "shared"
        with report_unwritable(config.scratch_directory, MAKE_ROOM):
            temporary = scratch / protocol.TEMPORARY_FOLDER
            scratch.mkdir(parents=True, exist_ok=True)
            shared.mkdir(exist_ok=True)
            # What an earlier process put there instead ends this one, not the run.
            with contextlib.suppress(FileExistsError):
                temporary.mkdir()
        return self.supervisor.start(
            dataclasses.replace(
                config.worker_request(planned, scratch, shared, repeat=repeat),
                snippet=self.snippets.get(planned.id, {}),
            ),
            directory,
            process=process,
            interpreter=planned.python or config.question.python,
            script=config.probes_directory / "runtime/worker.py",
            environment=worker_environment(
                config.environment,
                config.question,
                config.threads,
                scratch,
                temporary=self.supervisor.short_name(temporary),
                own_environment=bool(planned.python),
                compile_threads=compile_threads,
                bytecode=config.bytecode.directory if config.bytecode else None,
            ),
            max_build_seconds=config.question.max_build_times.get(
                planned.workflow, config.question.max_build_seconds
            ),
        )

    def forget(self, arm: str) -> Iterator[RunEvent]:
        """Kill the worker of the arm, which can be started again as if it had not run."""
        yield self.end(arm, Outcome())
        del self.workers[arm]

    def end(self, arm: str, outcome: Outcome) -> RunEvent:
        return self.record(*self.supervisor.end(self.workers[arm], outcome))

    def drop(self, arm: str, failure: Failure, process: int | None = None) -> Iterator[RunEvent]:
        """End the arm's worker; `failure` says why.

        Where no worker runs, report that the one with number `process` has ended.
        """
        if process is not None and not self.is_running(arm):
            yield WorkerSpawned(arm=arm, process=process)
            yield WorkerEnded(arm=arm, process=process, outcome=Outcome(failure))
        elif self.is_running(arm):
            yield self.end(arm, Outcome(failure))

    def scratch_directory(self, arm: str) -> pathlib.Path:
        """Return the folder of caches and artefacts that all processes of an arm share."""
        return self.config.scratch_directory / arm_directory_name(arm)

    def clear_caches(self, arm: str) -> None:
        """Remove the caches and artefacts of the arm, so that its next build is cold.

        A standby that has used them is ended.
        """
        standby = self.standbys.get(arm)
        if standby and standby.worker.has_begun_build:
            self.supervisor.kill(self.standbys.pop(arm).worker)
        shutil.rmtree(self.scratch_directory(arm), ignore_errors=True)

    def find_and_pause_busy(self, arms: Iterable[str]) -> Iterator[BusyWhileIdle]:
        """Look once for the processes of workers that are busy while all wait, and pause them."""
        unknown = [
            self.workers[arm]
            for arm in arms
            if self.is_running(arm) and self.workers[arm].busy is None
        ]
        trees = [process_tree(worker.directory) for worker in unknown]
        shares = find_busy_processes(itertools.chain(*trees))
        for worker, tree in zip(unknown, trees, strict=True):
            worker.busy = tuple(each for each in tree if each in shares)
            worker.pause_busy()
            if worker.busy:
                used = sum(shares[each] for each in worker.busy)
                yield BusyWhileIdle(arm=worker.arm, process=worker.process, processors=used)

    def resume_busy(self, arm: str) -> None:
        """Continue the processes of the arm that were paused because they are busy while idle."""
        self.workers[arm].resume_busy()

    def send(self, arm: str, command: commands.Command) -> None:
        """Send a command to the arm's worker; processes of it that were paused continue first."""
        self.resume_busy(arm)
        self.supervisor.send(self.workers[arm], command)

    def run_until(
        self,
        condition: Callable[[], bool],
        deferred: list[RunEvent] | None = None,
        end: float = math.inf,
    ) -> Iterator[RunEvent]:
        """Yield events until `condition` holds, or until `end` by the clock.

        The event that makes it hold goes to `deferred`: the caller of a generator may pause at any
        event, and a pause must not fall between the end of a section and its closing readings.
        """
        while not condition() and (now := self._clock()) < end:
            for worker, message in self._poll(end - now if math.isfinite(end) else None):
                run_event = self.record(worker, message)
                if deferred is not None and condition():
                    deferred.append(run_event)
                else:
                    yield run_event

    def receive(self, seconds: float) -> Iterator[RunEvent]:
        for worker, message in self._poll(seconds):
            yield self.record(worker, message)

    def _poll(self, seconds: float | None) -> Iterator[tuple[Worker, Message]]:
        """Yield the messages of the workers; those of standbys are kept."""
        for worker, message in self.supervisor.poll(seconds):
            standby = self.standbys.get(worker.arm)
            if standby is None or standby.worker is not worker:
                yield worker, message
                continue
            standby.messages.append(message)
            if isinstance(message, Imported) and not worker.has_begun_build:
                self.supervisor.send(worker, commands.CreateModel())
            elif isinstance(message, Prepared):
                self.supervisor.send(worker, commands.WarmUp())

    def check(self, arms: Collection[str]) -> Iterator[RunEvent]:
        """Let running workers check their outputs once more; on a CPU, one after the other.

        They do not check again before they end or try new shapes, unless they are timed meanwhile.
        """
        for arm in arms:
            self.send(arm, commands.Check())
            if self.config.question.device == "cpu":
                yield from self.run_until(functools.partial(self.is_ready_or_ended, arm))
        yield from self.run_until(lambda: all(map(self.is_ready_or_ended, arms)))

    def record(self, worker: Worker, message: Message) -> RunEvent:
        run_event: RunEvent = (
            WorkerEnded(arm=worker.arm, process=worker.process, outcome=message)
            if isinstance(message, Outcome)
            else WorkerReported(arm=worker.arm, process=worker.process, worker_event=message)
        )
        self.headroom.update(run_event)
        return run_event

    def running(self) -> list[str]:
        return [arm for arm in self.workers if self.is_running(arm)]

    def importing(self) -> list[str]:
        return [arm for arm in self.running() if not self.workers[arm].has_imported]

    def is_running(self, arm: str) -> bool:
        return arm in self.workers and self.workers[arm].outcome is None

    def is_building(self, arm: str) -> bool:
        phases = {"build", "correctness", "warmup"}
        return self.is_running(arm) and self.workers[arm].phase in phases

    def has_started(self, arm: str) -> bool:
        return arm in self.workers or arm in self._unstartable

    def has_failed(self, arm: str) -> bool:
        outcome = self.workers[arm].outcome if arm in self.workers else None
        return arm in self._unstartable or (outcome is not None and outcome.failure is not None)

    def is_prepared(self, arm: str) -> bool:
        return self.is_running(arm) and self.workers[arm].is_prepared

    def is_built(self, arm: str) -> bool:
        return self.is_prepared(arm) or (self.is_running(arm) and self.is_warmed_up(arm))

    def is_warmed_up(self, arm: str) -> bool:
        return arm in self.workers and Ready in self.workers[arm].answers

    def is_ready_or_ended(self, arm: str) -> bool:
        return not self.is_running(arm) or self.workers[arm].is_ready

    def last_visit(self, arm: str) -> Visited | None:
        return self.workers[arm].last_visit if arm in self.workers else None

    def process_number(self, arm: str) -> int:
        return self.workers[arm].process
