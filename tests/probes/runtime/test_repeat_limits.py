"""Programs whose operators may race are called more often."""

from __future__ import annotations

import pathlib
import types

import pytest
import workers

from probes.checking.output_check import repeat
from probes.runtime.cells import racing_operators, repeat_limits


def count_calls(racing: list[str]) -> int:
    """Return the number of calls of a cheap program without a difference."""
    request = workers.make_request(pathlib.Path("x"), pathlib.Path())
    request.accuracy["repeats"] |= {"most_calls": 40, "racing_calls": 90}
    limits = {**repeat_limits(racing, request), "seconds": 60.0}
    calls, _ = repeat(list, lambda *_: None, limits)
    return calls


@pytest.mark.parametrize(("racing", "calls"), [([], 40), (["ScatterND"], 90)])
def test_racing_operators_cause_more_calls(racing: list[str], calls: int) -> None:
    workflow = types.SimpleNamespace(racing_operators=lambda _: racing)
    assert count_calls(racing_operators(workflow, None)) == calls


def test_a_workflow_need_not_know_its_operators() -> None:
    assert racing_operators(types.SimpleNamespace(), None) == []
