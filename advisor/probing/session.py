"""Drive resident workers through their life: import, build in turn, visits, end.

Yields what happens; the pipeline decides what is next.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from advisor.domain.outcome import Failure, Outcome
from advisor.domain.plan import REFERENCE, Arm, folder_of
from advisor.domain.run_events import (
    BusyWhileIdle,
    Conditions,
    DeviceMemory,
    Ended,
    Energy,
    MemoryChecked,
    RunEvent,
    Spawned,
    WorkerReported,
)
from advisor.domain.worker_events import BlockTimed, Engaged, Imported, Ready
from advisor.probing import idle
from advisor.probing.conditions import Guard
from advisor.probing.device_memory import MemoryWatch, above
from advisor.probing.environments import worker_environment
from advisor.probing.memory_headroom import MemoryHeadroom
from advisor.probing.run_config import RunConfig
from advisor.probing.spawn import writing
from advisor.probing.supervisor import BuildLimit, Message, Supervisor, Worker
from advisor.system.host_lock import HostLock

#: What the device must be seen to count before its figures are believed.
KNOWN_BYTES = 256 << 20


class Session:
    """The workers of a run; its methods are generators of what happens meanwhile."""

    def __init__(
        self,
        supervisor: Supervisor,
        site: RunConfig,
        guard: Guard,
        memory_watch: MemoryWatch | None = None,
        room: MemoryHeadroom | None = None,
        turns: HostLock | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._site = site
        self._guard = guard
        self._memory_watch = memory_watch
        self._room = room or MemoryHeadroom(memory_watch)
        self._turns = turns or HostLock()
        self._turn: contextlib.ExitStack | None = None
        self._workers: dict[str, Worker] = {}
        self._imported: set[str] = set()
        self._ready: set[str] = set()
        self._built: set[str] = set()
        self._failed: set[str] = set()
        self._visits: dict[str, BlockTimed] = {}
        self._conditions: dict[str, Conditions] = {}
        self._resting = idle.IdleWorkers()

    def make_reference(self, arm: Arm, process: int) -> Iterator[RunEvent]:
        """Start the reference worker, which runs `arm`'s workflow, and let it work while others import: nothing of it is timed.

        It works on when this is over, so the turn is kept for `start`, which waits for it.
        """
        reference = msgspec.structs.replace(arm, id=REFERENCE)
        with contextlib.ExitStack() as turn:
            turn.enter_context(self._turns.working())
            yield from self._spawn(reference, process)
            if self.is_running(REFERENCE):
                self._supervisor.send(self._workers[REFERENCE], "build")
            self._turn = turn.pop_all()

    def start(
        self, arms: Iterable[tuple[Arm, int]], repeat: int = 0, built: Collection[str] = ()
    ) -> Iterator[RunEvent]:
        """Start a worker for each arm and process number and let them import, as many at a time as there are processors.

        The arms in `built` find the caches of their finished builds; the others find none, not even
        those of a build that was broken off. Stop early when the reference worker has failed:
        without it there is nothing to compare with.
        """
        turn, self._turn = self._turn or self._turns.working(), None
        with turn:
            most = self._site.machine.cpu.usable_processors
            for arm, process in arms:
                yield from self._listen_until(lambda: len(self._busy()) < most)
                if REFERENCE in self._failed and not self.is_built(REFERENCE):
                    return
                if arm.id not in built:
                    shutil.rmtree(self._site.scratch / folder_of(arm.id), ignore_errors=True)
                yield from self._spawn(arm, process, repeat)
            yield from self._listen_until(lambda: not self._busy())

    def build(self, arm: str, limit: BuildLimit | None = None) -> Iterator[RunEvent]:
        """Let one arm load, build, check and warm up; the others are idle meanwhile.

        A build beyond the limit is ended.
        """
        if not self.is_running(arm):
            return
        worker = self._workers[arm]
        if limit is not None:
            worker.limit = limit
        last: list[RunEvent] = []
        with self._turns.working():
            watch = self._memory_watch
            yield from (
                self._build(worker, last)
                if watch is None
                else self._build_watched(worker, watch, last)
            )
            if self.is_running(arm):
                last += self._settle(worker)
        yield from last

    def _settle(self, worker: Worker) -> list[RunEvent]:
        """See whether the worker rests now that it waits; stop what does not."""
        processors = self._resting.settle(worker.arm, worker.directory)
        return (
            [BusyWhileIdle(arm=worker.arm, process=worker.process, processors=processors)]
            if processors
            else []
        )

    def _send(self, worker: Worker, token: str) -> None:
        self._resting.wake(worker.arm)
        self._supervisor.send(worker, token)

    def _build(self, worker: Worker, last: list[RunEvent]) -> Iterator[RunEvent]:
        self._supervisor.send(worker, "build")
        yield from self._listen_until(
            lambda: worker.arm in self._ready or not self.is_running(worker.arm), last
        )

    def _build_watched(
        self, worker: Worker, watch: MemoryWatch, last: list[RunEvent]
    ) -> Iterator[RunEvent]:
        """Build and say what the device counted meanwhile: in all, and from the moment on when everything was built."""
        before = watch.used_bytes()
        with contextlib.ExitStack() as watching:
            peak, serving_peak = watching.enter_context(watch.peak()), None
            for run_event in self._build(worker, last):
                yield run_event
                if (
                    serving_peak is None
                    and isinstance(run_event, WorkerReported)
                    and isinstance(run_event.said, Engaged)
                ):
                    serving_peak = watching.enter_context(watch.peak())
        counted = DeviceMemory(
            arm=worker.arm,
            process=worker.process,
            before_bytes=before,
            peak_bytes=above(peak(), before),
            resident_bytes=above(watch.used_bytes(), before),
            serving_bytes=above(serving_peak(), before) if serving_peak else None,
            total_bytes=watch.total_bytes,
        )
        self._room.take(counted)
        last.append(counted)

    def leave_out(self, arm: str, outcome: Outcome) -> Iterator[RunEvent]:
        """End the arm's worker before its turn; `outcome` says why."""
        if self.is_running(arm):
            worker = self._workers[arm]
            self._supervisor.end(worker)
            worker.outcome = outcome
            yield self._take(worker, outcome)

    def check_memory(self) -> Iterator[RunEvent]:
        """Have the reference worker hold memory that is known and say what the device counts for it."""
        if self._memory_watch is None:
            return
        last: list[RunEvent] = []
        with self._turns.working():
            before = self._memory_watch.used_bytes()
            yield from self._ask(REFERENCE, f"allocate {KNOWN_BYTES}", last)
            seen = above(self._memory_watch.used_bytes(), before)
        yield from last
        if self.is_running(REFERENCE):
            yield MemoryChecked(allocated_bytes=KNOWN_BYTES, seen_bytes=seen)
            yield from self.ask(REFERENCE, "allocate 0")

    def ask(self, arm: str, token: str) -> Iterator[RunEvent]:
        """Have the arm's worker do what `token` says, until it is ready for another or has ended."""
        last: list[RunEvent] = []
        with self._turns.working():
            yield from self._ask(arm, token, last)
        yield from last

    def _ask(self, arm: str, token: str, last: list[RunEvent]) -> Iterator[RunEvent]:
        self._ready.discard(arm)
        self._send(self._workers[arm], token)
        yield from self._listen_until(lambda: arm in self._ready or not self.is_running(arm), last)
        self._resting.pause(arm)

    def visit(self, arm: str, batch_size: int, number: int) -> Iterator[RunEvent]:
        """Have one block of calls timed; afterwards `last_visit` and `last_conditions` have it, unless the worker ended."""
        worker = self._workers[arm]
        self._visits.pop(arm, None)
        last: list[RunEvent] = []
        with self._turns.timing():
            before = self._guard.read(worker.popen.pid)
            self._send(worker, f"visit {batch_size} {number}")
            yield from self._listen_until(
                lambda: arm in self._visits or not self.is_running(arm), last
            )
            self._resting.pause(arm)
            self._conditions[arm] = self._guard.conditions_since(before, worker.popen.pid)
            idle.wait_until_at_rest(worker.popen.pid)
        yield from last

    def sustain(self, arm: str, batch_size: int, seconds: float) -> Iterator[RunEvent]:
        """Have the arm called without a pause, and say what energy that took."""
        last: list[RunEvent] = []
        with self._turns.timing():
            before = self._guard.energy_joules()
            yield from self._ask(arm, f"sustain {batch_size} {seconds}", last)
            after = self._guard.energy_joules()
        yield from last
        joules = after - before if before is not None and after is not None else None
        yield Energy(
            arm=arm, process=self.process_number(arm), batch_size=batch_size, joules=joules
        )

    def last_visit(self, arm: str) -> BlockTimed | None:
        """Return what the last `visit` measured; None if the worker ended instead."""
        return self._visits.get(arm)

    def last_conditions(self, arm: str) -> Conditions:
        """Return what the machine went through during the last `visit`."""
        return self._conditions[arm]

    def process_number(self, arm: str) -> int:
        """Return the number of the arm's process that was started last."""
        return self._workers[arm].process

    def has_room(self) -> bool:
        """Say whether there is memory for one more worker to build."""
        return self._room.is_left()

    def stop(self, arms: Collection[str] | None = None) -> Iterator[RunEvent]:
        """Have all workers, or those of `arms`, check their outputs once more and end."""
        ending = [
            arm for arm in self._workers if self.is_running(arm) and (arms is None or arm in arms)
        ]
        if not ending:
            return
        with self._turns.working():
            for arm in ending:
                self._send(self._workers[arm], "stop")
            yield from self._listen_until(lambda: not any(self.is_running(arm) for arm in ending))

    def is_running(self, arm: str) -> bool:
        """Say whether the arm has a worker that has not ended."""
        return arm in self._workers and self._workers[arm].outcome is None

    def is_built(self, arm: str) -> bool:
        """Say whether the arm's last worker has built everything and is warm."""
        return arm in self._built

    def _busy(self) -> list[str]:
        """Return the workers that import, and the reference worker until it has made everything."""
        running = [arm for arm in self._workers if self.is_running(arm)]
        return [
            arm
            for arm in running
            if arm not in (self._ready if arm == REFERENCE else self._imported)
        ]

    def _spawn(self, arm: Arm, process: int, repeat: int = 0) -> Iterator[RunEvent]:
        site, question = self._site, self._site.question
        place = pathlib.Path(folder_of(arm.id)) / str(process)
        directory = site.arms / place
        shutil.rmtree(directory, ignore_errors=True)
        # Caches and artefacts are the arm's, not the process's: a later process of it starts warm.
        scratch, shared = site.scratch / folder_of(arm.id), site.scratch / "shared"
        with writing(site.scratch):
            scratch.mkdir(parents=True, exist_ok=True)
            shared.mkdir(exist_ok=True)
        worker = self._supervisor.start(
            site.request_for(arm, scratch, shared),
            directory,
            process=process,
            interpreter=arm.python or question.python,
            script=site.probes / "worker.py",
            environment=worker_environment(
                site.environment, question, site.threads, scratch, made_for_it=bool(arm.python)
            ),
            build_seconds=question.max_build_seconds,
            within=site.container_of(arm, (directory, scratch, shared)),
        )
        for known in (self._imported, self._ready, self._built, self._failed):
            known.discard(arm.id)
        self._resting.forget(arm.id)
        yield Spawned(arm=arm.id, process=process, repeat=repeat)
        if isinstance(worker, Worker):
            self._workers[arm.id] = worker
        else:
            self._failed.add(arm.id)
            yield Ended(arm=arm.id, process=process, outcome=worker)

    def _listen_until(
        self, condition: Callable[[], bool], last: list[RunEvent] | None = None
    ) -> Iterator[RunEvent]:
        """Yield what happens until `condition` holds.

        With what it holds goes to `last` instead, for after the closing readings: whoever is told
        of it may pause.
        """
        while not condition():
            for worker, message in self._supervisor.listen():
                run_event = self._take(worker, message)
                if last is not None and condition():
                    last.append(run_event)
                else:
                    yield run_event

    def _take(self, worker: Worker, message: Message) -> RunEvent:
        run_event = self._remember(worker, message)
        self._room.take(run_event)
        return run_event

    def _remember(self, worker: Worker, message: Message) -> RunEvent:
        if isinstance(message, Failure):
            self._failed.add(worker.arm)
        if isinstance(message, Outcome):
            return Ended(arm=worker.arm, process=worker.process, outcome=message)
        if isinstance(message, Imported):
            self._imported.add(worker.arm)
        elif isinstance(message, Ready):
            self._ready.add(worker.arm)
            self._built.add(worker.arm)
        elif isinstance(message, BlockTimed):
            self._visits[worker.arm] = message
        return WorkerReported(arm=worker.arm, process=worker.process, said=message)
