"""Track the last worker of each arm and how far it has come."""

from __future__ import annotations

from advisor.domain.outcome import Failure
from advisor.domain.plan import REFERENCE
from advisor.domain.worker_events import BlockTimed, Imported, Prepared, Ready
from advisor.probing.supervisor import Message
from advisor.probing.worker_process import Worker


class WorkerStates:
    """The last worker of each arm, by the arm's id."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._imported: set[str] = set()
        self._prepared: set[str] = set()
        self._ready: set[str] = set()
        self._warmed_up: set[str] = set()
        self._failed: set[str] = set()
        self._visits: dict[str, BlockTimed] = {}

    def __getitem__(self, arm: str) -> Worker:
        return self._workers[arm]

    def reset(self, arm: str) -> None:
        """Drop the state of the arm, because a new worker of it starts."""
        for arms in (self._imported, self._prepared, self._ready, self._warmed_up, self._failed):
            arms.discard(arm)

    def add(self, arm: str, worker: Worker) -> None:
        self._workers[arm] = worker

    def add_failure(self, arm: str) -> None:
        """Record that no worker of the arm could be started."""
        self._failed.add(arm)

    def update(self, arm: str, message: Message) -> None:
        """Record a message of the arm's worker."""
        if isinstance(message, Failure):
            self._failed.add(arm)
        elif isinstance(message, Imported):
            self._imported.add(arm)
        elif isinstance(message, Prepared):
            self._prepared.add(arm)
        elif isinstance(message, Ready):
            self._prepared.discard(arm)
            self._ready.add(arm)
            self._warmed_up.add(arm)
        elif isinstance(message, BlockTimed):
            self._visits[arm] = message

    def expect_ready(self, arm: str) -> None:
        """Forget that the worker is ready, before a token is sent to it."""
        self._ready.discard(arm)

    def expect_visit(self, arm: str) -> None:
        """Forget the last visit, before another one starts."""
        self._visits.pop(arm, None)

    def last_visit(self, arm: str) -> BlockTimed | None:
        """Return the result of the last visit; None if the worker ended instead."""
        return self._visits.get(arm)

    def running(self) -> list[str]:
        """Return the arms that have a worker that has not ended."""
        return [arm for arm in self._workers if self.is_running(arm)]

    def importing(self) -> list[str]:
        """Return the arms that import, and the reference until it has computed its outputs."""
        return [
            arm
            for arm in self.running()
            if arm not in (self._ready if arm == REFERENCE else self._imported)
        ]

    def has_started(self, arm: str) -> bool:
        return arm in self._workers or arm in self._failed

    def has_imported(self, arm: str) -> bool:
        return arm in self._imported

    def is_prepared(self, arm: str) -> bool:
        """Return whether the arm's worker has built everything and waits to warm up."""
        return arm in self._prepared and self.is_running(arm)

    def is_running(self, arm: str) -> bool:
        return arm in self._workers and self._workers[arm].outcome is None

    def is_ready_or_ended(self, arm: str) -> bool:
        return arm in self._ready or not self.is_running(arm)

    def is_visited_or_ended(self, arm: str) -> bool:
        return arm in self._visits or not self.is_running(arm)

    def is_warmed_up(self, arm: str) -> bool:
        """Return whether the arm's last worker has built everything and has warmed up."""
        return arm in self._warmed_up

    def has_failed(self, arm: str) -> bool:
        return arm in self._failed
