"""The user's metric gets a callable model, and its faults are reported."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import numpy as np
import pytest
import workers

from probes.checking.program_cell import ProgramCell
from probes.checks import UserMetric
from probes.runtime.cells import Job, report_losses
from probes.runtime.failures import exception_summary
from probes.shape import Shape

METRIC = """
import numpy as np

def score(model):
    (output,) = model(np.full((model.batch_size, 2), 3.0))
    return output.sum()

def broken(model):
    raise ValueError("no such task")
"""


def ask(directory: pathlib.Path, function: str, **long_text: Any) -> list[Any]:
    file = directory / "metric.py"
    file.write_text(METRIC)
    sent: list[Any] = []
    channel: Any = types.SimpleNamespace(send=sent.append, start_phase=lambda *_: None)
    request: Any = types.SimpleNamespace(
        batch_sizes=[1, 4],
        long_text=long_text,
        metric=f"{file}:{function}" if function else "",
        shared_directory=str(directory),
    )
    workflow = types.SimpleNamespace(synchronise=lambda: None)
    unused: Any = None
    doubling = workers.FakeProgram(lambda fed: 2 * fed)
    cells = {
        shape: ProgramCell(workflow, shape, doubling, [], unused, unused)
        for shape in (Shape(1), Shape(4))
    }
    report_losses(cells, Job(request, channel, workflow))
    return sent


def test_the_metric_calls_the_largest_batch(tmp_path: pathlib.Path) -> None:
    (found,) = ask(tmp_path, "score")
    assert found == UserMetric(float(np.sum(np.full((4, 2), 6.0))))


def test_an_error_of_the_metric_is_reported(tmp_path: pathlib.Path) -> None:
    (found,) = ask(tmp_path, "broken")
    assert found.value is None
    assert found.problem == exception_summary(ValueError("no such task"))


@pytest.mark.parametrize("tokens", [{}, {"tokens": 8, "seconds": 1.0, "data": ""}])
def test_without_text_and_metric_nothing_is_sent(
    tokens: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    assert ask(tmp_path, "", **tokens) == []
