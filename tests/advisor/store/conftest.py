"""Fixtures of stored runs."""

from __future__ import annotations

import pathlib

import builders
import pytest
from recorded_runs import IDS, make_planned_run

from advisor.domain.run_events import ArmsPlanned, Finished
from advisor.store.runs import Run
from advisor.store.store import Store


@pytest.fixture
def run(home: pathlib.Path) -> Run:
    return make_planned_run(home)


@pytest.fixture
def three_runs(home: pathlib.Path) -> Store:
    """Two finished runs, and one between them that has not finished."""
    finished = builders.events(ArmsPlanned(plan=builders.plan()), Finished())
    for run_id, events in zip(IDS, (finished, finished[:1], finished), strict=True):
        make_planned_run(home, run_id, *events)
    return Store(home)
