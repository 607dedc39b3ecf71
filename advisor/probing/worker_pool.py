"""The worker processes of a run: their starts, commands, reports and states; the standbys."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator

from advisor.domain.plan import Arm, arm_directory_name
from advisor.domain.run_events import RunEvent, WorkerEnded, WorkerReported, WorkerSpawned
from advisor.probing.device_memory import MemoryHeadroom
from advisor.probing.env_variables import worker_environment
from advisor.probing.run_config import RunConfig
from advisor.probing.supervisor import MAKE_ROOM, Message, Supervisor
from advisor.probing.worker_process import Stage, Worker
from advisor.store.files import report_unwritable
from probes import commands, protocol
from probes.commands import Command
from probes.events import Built
from probes.outcome import Failure, Outcome


class Standbys:
    """The standby of each arm that has one.

    It has created the model too, as far as it can without its weights, loads these, or builds it
    and warms up. Its messages wait until the repetition begins.
    """

    def __init__(
        self, supervisor: Supervisor, start: Callable[..., Worker | Failure], shapes: int
    ) -> None:
        """Use `start` for new ones; each builds the `shapes` of the question at most."""
        self.workers: dict[str, Worker] = {}
        self._supervisor, self._start, self._shapes = supervisor, start, shapes

    def add(self, planned: Arm, process: int) -> None:
        worker = self._start(planned, process, repeat=1)
        if isinstance(worker, Worker):
            self.workers[planned.id] = worker

    def add_all(self, arms: Iterable[tuple[Arm, int]], built: Collection[str] = ()) -> None:
        """Start those that are missing, and let all go on; those in `built` build."""
        for planned, process in arms:
            if planned.id not in self.workers:
                self.add(planned, process)
        for arm, worker in self.workers.items():
            if worker.outcome is None:
                worker.go_on()
                if arm in built or worker.build_commands:
                    self.build(worker)

    def build(self, worker: Worker, shapes: int | None = None) -> None:
        """Let it build this many shapes, which are in the caches of its arm; all by default."""
        # A worker may report that it has built too many.
        most = self._shapes if shapes is None else min(shapes, self._shapes)
        for number in range(worker.build_commands, most):
            command = commands.BuildNext() if number else commands.Prepare(waits=True)
            self._supervisor.send(worker, command)

    def are_building(self) -> bool:
        """Return whether a standby loads its weights or builds."""
        # The command to build may precede the import.
        busy = [each for each in self.workers.values() if each.is_busy]
        return any(each.build_commands or each.stage >= Stage.CREATED for each in busy)

    def keep(self, worker: Worker, message: Message) -> bool:
        """Keep the message of a standby, and let it go on; return False for another worker."""
        if self.workers.get(worker.arm) is not worker:
            return False
        worker.messages.append(message)
        if worker.is_waiting and worker.stage == Stage.IMPORTED:
            self._supervisor.send(worker, commands.CreateModel())
        elif worker.is_prepared:
            self._supervisor.send(worker, commands.WarmUp())
        return True

    def take(self, arm: str, process: int) -> Worker | None:
        """Return the standby of the arm, and let it go on; end one of another process number."""
        worker = self.workers.get(arm)
        if worker is None or worker.process != process or worker.outcome is not None:
            self.end(arm)
            return None
        worker.go_on()
        if worker.build_commands:
            self.build(worker)
        return self.workers.pop(arm)

    def end(self, arm: str) -> None:
        if arm in self.workers:
            self._supervisor.kill(self.workers.pop(arm))

    def end_all(self) -> None:
        for arm in [*self.workers]:
            self.end(arm)


class WorkerPool:
    """The worker processes of a run, and the state of each arm's last one."""

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
        self.standbys = Standbys(self.supervisor, self._start, len(config.question.shapes))
        #: What the processes of snippets run, by name.
        self.snippets: dict[str, protocol.SnippetOptions] = {}

    def spawn(
        self, planned: Arm, process: int, repeat: int = 0, compile_threads: int | None = None
    ) -> Iterator[RunEvent]:
        """Start a worker of the arm; compilers use `compile_threads`, or as many as they choose.

        A standby of the same process is used instead.
        """
        standby = self.standbys.take(planned.id, process)
        worker = standby or self._start(planned, process, repeat, compile_threads)
        self.workers.pop(planned.id, None)
        self._unstartable.discard(planned.id)
        yield WorkerSpawned(arm=planned.id, process=process, repeat=repeat)
        if isinstance(worker, Worker):
            self.workers[planned.id] = worker
            for message in worker.messages:
                yield self._record(worker, message)
        else:
            self._unstartable.add(planned.id)
            yield WorkerEnded(arm=planned.id, process=process, outcome=Outcome(worker))

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
        yield self._record(*self.supervisor.end(self.workers[arm], Outcome()))
        del self.workers[arm]

    def drop(self, arm: str, failure: Failure, process: int | None = None) -> Iterator[RunEvent]:
        """End the arm's worker; `failure` says why.

        Where no worker runs, report that the one with number `process` has ended.
        """
        if process is not None and not self.is_running(arm):
            yield WorkerSpawned(arm=arm, process=process)
            yield WorkerEnded(arm=arm, process=process, outcome=Outcome(failure))
        elif self.is_running(arm):
            yield self._record(*self.supervisor.end(self.workers[arm], Outcome(failure)))

    def scratch_directory(self, arm: str) -> pathlib.Path:
        """Return the folder of caches and artefacts that all processes of an arm share."""
        return self.config.scratch_directory / arm_directory_name(arm)

    def clear_caches(self, arm: str) -> None:
        """Remove the caches and artefacts of the arm, so that its next build is cold.

        A standby that has used them is ended.
        """
        standby = self.standbys.workers.get(arm)
        if standby and standby.build_commands:
            self.standbys.end(arm)
        shutil.rmtree(self.scratch_directory(arm), ignore_errors=True)

    def send(self, arm: str, command: Command) -> None:
        """Send a command to the arm's worker; processes of it that were paused continue first."""
        self.workers[arm].resume_busy()
        self.supervisor.send(self.workers[arm], command)

    def send_and_wait(
        self, arms: Collection[str], command: Command, deferred: list[RunEvent] | None = None
    ) -> Iterator[RunEvent]:
        """Let the arms execute a command at the same time; see `run_until` for `deferred`."""
        last: list[RunEvent] = [] if deferred is None else deferred
        for arm in arms:
            self.send(arm, command)
        yield from self.run_until(lambda: all(map(self.is_ready_or_ended, arms)), last)
        for arm in arms:
            self.workers[arm].pause_busy()
        if deferred is None:
            yield from last

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
            for run_event in self.receive(end - now if math.isfinite(end) else None):
                if deferred is not None and condition():
                    deferred.append(run_event)
                else:
                    yield run_event

    def receive(self, seconds: float | None) -> Iterator[RunEvent]:
        """Yield what workers report within `seconds`; the messages of standbys are kept."""
        for worker, message in self.supervisor.poll(seconds):
            if not self.standbys.keep(worker, message):
                yield self._record(worker, message)

    def _record(self, worker: Worker, message: Message) -> RunEvent:
        run_event: RunEvent = (
            WorkerEnded(arm=worker.arm, process=worker.process, outcome=message)
            if isinstance(message, Outcome)
            else WorkerReported(arm=worker.arm, process=worker.process, worker_event=message)
        )
        self.headroom.update(run_event)
        if isinstance(message, Built) and worker.built_beside_others:
            self.headroom.update_from(worker.pid)
        return run_event

    def running(self) -> list[Worker]:
        return [each for each in self.workers.values() if each.outcome is None]

    def importing(self) -> list[str]:
        return [each.arm for each in self.running() if each.stage == Stage.IMPORTING]

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
        return arm in self.workers and self.workers[arm].is_prepared

    def is_built(self, arm: str) -> bool:
        return self.is_prepared(arm) or (self.is_running(arm) and self.is_warmed_up(arm))

    def is_built_or_ended(self, arm: str) -> bool:
        return self.is_built(arm) or not self.is_running(arm)

    def is_warmed_up(self, arm: str) -> bool:
        return arm in self.workers and self.workers[arm].stage == Stage.READY

    def is_ready_or_ended(self, arm: str) -> bool:
        return not self.is_running(arm) or self.workers[arm].is_ready
