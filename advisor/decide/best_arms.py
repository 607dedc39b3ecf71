"""The best arms under one further condition: at a batch size, exact, or with native weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from advisor.domain.accuracy import worst_error
from advisor.domain.measurement import Measurement
from advisor.domain.recommendation import ShapeAdvice
from advisor.domain.results import Results
from advisor.domain.scores import ScoredArm
from probes.wire.shape import Shape


def find_best_exact(viable: Sequence[ScoredArm], results: Results) -> str | None:
    """Return the first arm by rank whose outputs are exact; None without one."""
    exact = {
        entry.arm
        for entry in results.measurements
        if all(checked.accuracy_class == "exact" for checked in entry.correctness)
    }
    return next((arm.arm for arm in viable if arm.arm in exact), None)


def find_errors(results: Results) -> dict[str, float]:
    """Return the largest error of the outputs of each arm: 0 if exact, infinite if unknown."""
    return {entry.arm: _error(entry) for entry in results.measurements}


def _error(measurement: Measurement) -> float:
    checks = measurement.correctness
    if all(each.accuracy_class == "exact" for each in checks):
        return 0.0
    error = worst_error(checks)
    return math.inf if error is None else error


def advise_by_shape(
    advised: ScoredArm, results: Results, by_shape: Mapping[Shape, Sequence[ScoredArm]]
) -> tuple[ShapeAdvice, ...]:
    """Return the best arm at each batch size alone; `by_shape` has their arms, best first."""
    speedups = {
        (entry.arm, cell.shape): cell.speedup.value
        for entry in results.measurements
        for cell in entry.cells
    }
    found = []
    for shape, ranked in sorted(by_shape.items()):
        best = next((arm for arm in ranked if not arm.failed_constraints), None)
        if best is not None and (advised.arm, shape) in speedups:
            found.append(
                ShapeAdvice(
                    shape=shape,
                    arm=best.arm,
                    speedup=speedups[best.arm, shape],
                    advised_speedup=speedups[advised.arm, shape],
                )
            )
    return tuple(found)
