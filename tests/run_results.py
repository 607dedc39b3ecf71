"""Summaries of run states, for the tests of `advisor.decide`."""

from __future__ import annotations

from collections.abc import Sequence

import builders
from builders import BASELINE

from advisor.decide import summary
from advisor.domain.measurement import Measurement
from advisor.domain.results import RaceResult, Results
from advisor.domain.run_state import RunState
from probes.wire.outcome import Failure, Outcome
from probes.wire.shape import Shape

WRONG = Outcome(Failure("incorrect", phase="done", reason="its last output was wrong"))
RACES = {Shape(1): builders.race_result(1)}


def summarise(state: RunState, races: dict[Shape, RaceResult]) -> Results:
    return summary.summarise(state, races, dtype="float32")


def only_measurement(results: Results) -> Measurement:
    (measurement,) = (entry for entry in results.measurements if entry.arm != BASELINE)
    return measurement


def run_with(
    *seconds: float, against: float | Sequence[float] = 0.4, **changes: object
) -> RunState:
    """Return a run in which `compiled` takes these seconds and the baseline takes `against`."""
    times = [against] * len(seconds) if isinstance(against, float) else against
    baseline = builders.process(*builders.visits(times))
    return builders.run_state(
        {BASELINE: baseline, "compiled": builders.process(*builders.visits(seconds), **changes)}
    )
