"""Stored runs with known ids, for tests of the store."""

from __future__ import annotations

import pathlib

import builders

from advisor.domain.run_events import LoggedEvent, Planned
from advisor.domain.run_state import Header
from advisor.store.runs import Run
from advisor.store.store import Store

IDS = ("20261120-080000-aaaa", "20261121-120000-0000", "20261121-120000-00ff")
HISTORY = list(reversed(IDS))


def header(run_id: str = IDS[0]) -> Header:
    return builders.header(
        run_id=run_id, created=f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T12:00:00+00:00"
    )


def make_run(home: pathlib.Path, run_id: str = IDS[0], *events: LoggedEvent) -> Run:
    run = Store(home).create(header(run_id))
    with run.writer() as writer:
        for event in events or builders.events(Planned(plan=builders.plan("compiled"))):
            writer.append(event)
    return run
