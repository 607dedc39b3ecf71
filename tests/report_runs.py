"""Runs with chosen speeds of the arm `compiled`, for tests of reports."""

from __future__ import annotations

from typing import Any

import builders
import msgspec

from advisor.domain.answer import Answer
from advisor.domain.interval import Interval
from advisor.domain.measurement import CallSeconds, Cell, Throughput


def cell(seconds: float = 0.1, spread: float = 1.01, **changes: Any) -> Cell:
    """Return a cell whose interval extends by the factor `spread` to both sides."""
    made = Cell(
        batch_size=1,
        seconds=CallSeconds(median=seconds, low=seconds / spread, high=seconds * spread, samples=9),
        throughput=Throughput(value=1 / seconds, unit="samples/s"),
        speedup=Interval(value=2.0, low=1.9, high=2.1),
        tflops=None,
    )
    return msgspec.structs.replace(made, **changes)


def run_answer(seconds: float = 0.1, spread: float = 1.01, **changes: Any) -> Answer:
    """Return a run without noise in which a call of `compiled` takes `seconds`."""
    answer = builders.answer(**changes)
    measurements = tuple(
        msgspec.structs.replace(entry, cells=(cell(seconds, spread),))
        if entry.arm == "compiled"
        else entry
        for entry in answer.results.measurements
    )
    results = msgspec.structs.replace(answer.results, measurements=measurements, noise_floor=0.0)
    return msgspec.structs.replace(answer, results=results)
