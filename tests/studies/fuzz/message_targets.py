"""A target of the campaign: messages of workers."""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
from typing import Any, cast

import mutations
import recorded_runs
from targets import Target, encoded

from advisor.domain.catalogue import Deadlines
from advisor.domain.event_folding import fold
from advisor.domain.run_events import LoggedEvent, WorkerReported
from advisor.probing.supervisor import DAMAGED
from advisor.probing.worker_process import Worker
from advisor.store.store import Store
from probes import protocol
from probes.wire.outcome import Outcome


class WorkerMessages(Target):
    """Events and responses of a worker, whole lines and damaged ones."""

    name = "worker-messages"

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        made = recorded_runs.make_run(Store(self.fresh()), finished=True)
        self.logged = made.events()
        reported = [
            event.run_event for event in self.logged if isinstance(event.run_event, WorkerReported)
        ]
        self.events = [encoded(each.worker_event) for each in reported]
        self.arm, self.process = reported[-1].arm, reported[-1].process
        self.deadlines = Deadlines(**dict.fromkeys(Deadlines.__struct_fields__, 60.0))

    def make_input(self, chance: random.Random) -> Any:
        events = [
            mutations.mutate(chance.choice(self.events), chance) for _ in range(chance.randrange(4))
        ]
        content = b"".join(json.dumps(event).encode() + b"\n" for event in events)
        if chance.random() < 0.3:
            content = mutations.mutate_bytes(content, chance)
        response: Any = {"failure": {"status": "build-failed", "phase": "build", "reason": "none"}}
        response = json.dumps(mutations.mutate(response, chance)).encode()
        if chance.random() < 0.3:
            response = mutations.mutate_bytes(response, chance)
        return {"events": content.decode("latin-1"), "response": response.decode("latin-1")}

    def try_input(self, value: Any) -> None:
        directory = self.fresh()
        (directory / protocol.EVENTS).write_bytes(value["events"].encode("latin-1"))
        (directory / protocol.RESPONSE).write_bytes(value["response"].encode("latin-1"))
        worker = Worker(
            arm=self.arm,
            process=self.process,
            directory=directory,
            popen=cast("subprocess.Popen[bytes]", None),
            notify_fd=-1,
            pidfd=-1,
            max_build_seconds=60.0,
        )
        try:
            events = worker.read_events()
            for event in events:
                worker.apply_event(event, self.deadlines, 0.0)
            outcome = worker.read_response()
        except DAMAGED:
            return
        assert outcome is None or isinstance(outcome, Outcome)
        logged = [
            LoggedEvent(
                seq=number,
                at=0.0,
                run_event=WorkerReported(arm=self.arm, process=self.process, worker_event=event),
            )
            for number, event in enumerate(events, start=len(self.logged) + 1)
        ]
        fold([*self.logged, *logged])
