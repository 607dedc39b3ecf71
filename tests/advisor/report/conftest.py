"""A finished run, as an answer."""

from __future__ import annotations

import pytest

from advisor.domain.answer import Answer
from advisor.report.answer_files import answer_of_run
from advisor.store.runs import Run


@pytest.fixture
def finished_run(made_run: Run) -> Answer:
    return answer_of_run(made_run)
