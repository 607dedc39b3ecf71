"""A finished run and fleets of it, as documents and records."""

from __future__ import annotations

import pathlib

import pytest
import recorded_runs
from advisor.report.documents import measured_document
from advisor.report.documents.document import RunDocument

from advisor.pipeline.decision import decide
from advisor.store.store import Store


@pytest.fixture
def finished_run(home: pathlib.Path) -> RunDocument:
    decision = decide(recorded_runs.make_run(Store(home), finished=True))
    return measured_document.compose(decision)
