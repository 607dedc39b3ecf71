"""A model that takes too long to open ends within the limit that the user sets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sessions import exhaust

from advisor.context import Context
from advisor.errors import UserError
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers

pytestmark = pytest.mark.slow


def test_the_limit_for_opening_the_model_is_stored_with_the_run(
    fake_context: Callable[[], Context],
) -> None:
    run = prepare(Answers(max_load_seconds=7.0), fake_context())
    assert run.header().catalogue.presets.deadlines.load == 7.0
    default = prepare(Answers(), fake_context())
    assert default.header().catalogue.presets.deadlines.load > 7.0


def test_a_model_that_does_not_open_in_time_ends_the_run_with_the_option(
    fake_context: Callable[[], Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("P3_ADVISOR_FAKE_LOAD_SECONDS", "3600")
    context = fake_context()
    run = prepare(Answers(max_load_seconds=1.0, batch_sizes="1"), context)
    with pytest.raises(UserError) as problem:
        exhaust(execute(run, context))
    assert "--max-load-seconds" in problem.value.next_step
