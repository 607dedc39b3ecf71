"""Report what the arm loses of a trained model: along a long text, and by the user's metric."""

from __future__ import annotations

import pathlib
from typing import Any

from probes import protocol
from probes.checking import long_text
from probes.checking.dispatch import Cell, run_program
from probes.module_file import load_module
from probes.runtime.channel import Channel
from probes.runtime.failures import attempt, exception_summary, try_optional
from probes.wire import checks
from probes.wire.shape import Shape


def report_losses(cells: dict[Shape, Cell], request: protocol.Request, channel: Channel) -> None:
    """Send the scores along the long text and the user's metric; what fails is not sent."""
    shape = max(cells)
    program = cells[shape].program
    if request.long_text and long_text.file_of(request).exists():
        channel.start_phase("correctness", shape)
        scores = try_optional(
            lambda: long_text.score_program(program, long_text.load(request), request)
        )
        if scores is not None:
            channel.send(scores)
    if request.metric:
        channel.start_phase("correctness", shape)
        model = MeasuredModel(cells[shape])
        channel.send(
            attempt(
                lambda: call_metric(request.metric, model),
                lambda problem: checks.UserMetric(None, exception_summary(problem)),
            )
        )


class MeasuredModel:
    """What the user's metric gets: a call takes and returns numpy arrays.

    The arrays have the shapes that were built. For text they are prompts, `(batch_size, input
    tokens) int64`, and new tokens, `(batch_size, output tokens) int64`.
    """

    def __init__(self, cell: Cell) -> None:
        self.batch_size = cell.shape.batch_size
        self._cell = cell

    def __call__(self, *arrays: Any) -> list[Any]:
        program = self._cell.program
        return next(run_program(self._cell.workflow, program, [program.feed(list(arrays))]))


def call_metric(target: str, model: MeasuredModel) -> checks.UserMetric:
    file, _, name = target.rpartition(":")
    module = load_module("p3_advisor_metric", pathlib.Path(file))
    return checks.UserMetric(float(getattr(module, name)(model)))
