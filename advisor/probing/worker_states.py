"""Track the last worker of each arm and how far it has come."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from advisor.probing.supervisor import Message
from advisor.probing.worker_process import Worker
from probes.wire.events import BlockTimed, Created, Imported, Prepared, Ready
from probes.wire.outcome import Outcome


@dataclasses.dataclass
class Progress:
    """What the last worker of an arm has reported."""

    imported: bool = False
    #: It has created the model and waits for the weights.
    created: bool = False
    #: It has built everything and waits to warm up.
    prepared: bool = False
    #: It waits for a token.
    ready: bool = False
    warmed_up: bool = False
    #: It ended in a failure, or could not be started.
    failed: bool = False


class WorkerStates:
    """The last worker of each arm, by the arm's id."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._progress: defaultdict[str, Progress] = defaultdict(Progress)
        self._visits: dict[str, BlockTimed] = {}

    def __getitem__(self, arm: str) -> Worker:
        return self._workers[arm]

    def reset(self, arm: str) -> None:
        """Drop the state of the arm, because a new worker of it starts."""
        self._progress[arm] = Progress()

    def add(self, arm: str, worker: Worker) -> None:
        self._workers[arm] = worker

    def forget(self, arm: str) -> None:
        """Drop the worker of the arm, as if it had not been started."""
        del self._workers[arm], self._progress[arm]

    def add_failure(self, arm: str) -> None:
        self._progress[arm].failed = True

    def update(self, arm: str, message: Message) -> None:
        progress = self._progress[arm]
        if isinstance(message, Outcome):
            progress.failed = message.failure is not None
        elif isinstance(message, Imported):
            progress.imported = True
        elif isinstance(message, Created):
            progress.created = True
        elif isinstance(message, Prepared):
            progress.prepared = True
        elif isinstance(message, Ready):
            progress.prepared = False
            progress.ready = progress.warmed_up = True
        elif isinstance(message, BlockTimed):
            self._visits[arm] = message

    def expect_ready(self, arm: str) -> None:
        """Forget that the worker is ready, before a token is sent to it."""
        self._progress[arm].ready = False

    def expect_visit(self, arm: str) -> None:
        """Forget the last visit, before another one starts."""
        self._visits.pop(arm, None)

    def last_visit(self, arm: str) -> BlockTimed | None:
        """Return the result of the last visit; None if the worker ended instead."""
        return self._visits.get(arm)

    def running(self) -> list[str]:
        return [arm for arm in self._workers if self.is_running(arm)]

    def importing(self) -> list[str]:
        return [arm for arm in self.running() if not self._progress[arm].imported]

    def has_started(self, arm: str) -> bool:
        return arm in self._workers or self._progress[arm].failed

    def has_imported(self, arm: str) -> bool:
        return self._progress[arm].imported

    def is_creating(self, arm: str) -> bool:
        """Return whether the arm's worker runs and has not created the model."""
        return self.is_running(arm) and not self._progress[arm].created

    def is_prepared(self, arm: str) -> bool:
        """Return whether the arm's worker has built everything and waits to warm up."""
        return self._progress[arm].prepared and self.is_running(arm)

    def is_running(self, arm: str) -> bool:
        return arm in self._workers and self._workers[arm].outcome is None

    def is_ready_or_ended(self, arm: str) -> bool:
        return self._progress[arm].ready or not self.is_running(arm)

    def is_visited_or_ended(self, arm: str) -> bool:
        return arm in self._visits or not self.is_running(arm)

    def is_warmed_up(self, arm: str) -> bool:
        """Return whether the arm's last worker has built everything and has warmed up."""
        return self._progress[arm].warmed_up

    def has_failed(self, arm: str) -> bool:
        return self._progress[arm].failed
