"""A finished run, as an answer."""

from __future__ import annotations

import pathlib

import pytest
import recorded_runs

from advisor.domain.answer import Answer
from advisor.report.answer_files import decide
from advisor.store.store import Store


@pytest.fixture
def finished_run(home: pathlib.Path) -> Answer:
    return decide(recorded_runs.make_run(Store(home), finished=True))
