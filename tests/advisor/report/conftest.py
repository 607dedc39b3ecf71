"""A finished run, as an answer."""

from __future__ import annotations

import pytest

from advisor.domain.answer import Answer
from advisor.report.answer_files import decide
from advisor.store.runs import Run


@pytest.fixture
def finished_run(made_run: Run) -> Answer:
    return decide(made_run)
