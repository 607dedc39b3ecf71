"""The best arms under one further condition: at a batch size, exact, or with native weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from advisor.domain.accuracy import worst_error
from advisor.domain.measurement import Measurement
from advisor.domain.recommendation import BatchAdvice
from advisor.domain.results import Results
from advisor.domain.scores import ScoredArm


def find_best_native(scored: Sequence[ScoredArm], indifference: float) -> tuple[str, ...]:
    """Return the best arms that meet the constraints and have no quantised weights.

    These are the first by rank and, of the other workflows, the first arms whose scores are less
    than the `indifference` lower.
    """
    return _best_of_each([arm for arm in scored if arm.weights is None], indifference)


def find_best_exact(
    scored: Sequence[ScoredArm], results: Results, indifference: float
) -> tuple[str, ...]:
    """Return the best arms that meet the constraints and whose outputs are exact, as above."""
    exact = {
        entry.arm
        for entry in results.measurements
        if all(checked.accuracy_class == "exact" for checked in entry.correctness)
    }
    return _best_of_each([arm for arm in scored if arm.arm in exact], indifference)


def _best_of_each(arms: Sequence[ScoredArm], indifference: float) -> tuple[str, ...]:
    first: dict[str, ScoredArm] = {}
    for arm in sorted(arms, key=lambda arm: arm.rank):
        if not arm.failed_constraints:
            first.setdefault(arm.workflow, arm)
    best = next(iter(first.values()), None)
    if best is None:
        return ()
    return tuple(arm.arm for arm in first.values() if arm.score >= best.score - indifference)


def find_most_exact(
    advised: ScoredArm, viable: Sequence[ScoredArm], results: Results, indifference: float
) -> ScoredArm:
    """Return the most exact of the advised workflow's arms that score as well as `advised`.

    Arms score as well if they are less than the `indifference` apart. Exact outputs have no error;
    of arms with the same error the one with the higher rank is returned.
    """
    errors = find_errors(results)
    equal = [
        arm
        for arm in viable
        if arm.workflow == advised.workflow and arm.score >= advised.score - indifference
    ]
    return min(equal, key=lambda arm: (errors.get(arm.arm, math.inf), arm.rank))


def find_errors(results: Results) -> dict[str, float]:
    """Return the largest error of the outputs of each arm: 0 if exact, infinite if unknown."""
    return {entry.arm: _error(entry) for entry in results.measurements}


def _error(measurement: Measurement) -> float:
    checks = measurement.correctness
    if all(each.accuracy_class == "exact" for each in checks):
        return 0.0
    error = worst_error(checks)
    return math.inf if error is None else error


def advise_by_batch_size(
    advised: ScoredArm, results: Results, by_batch_size: Mapping[int, Sequence[ScoredArm]]
) -> tuple[BatchAdvice, ...]:
    """Return the best arm at each batch size alone; `by_batch_size` has their arms, best first."""
    speedups = {
        (entry.arm, cell.batch_size): cell.speedup.value
        for entry in results.measurements
        for cell in entry.cells
    }
    found = []
    for size, ranked in sorted(by_batch_size.items()):
        best = next((arm for arm in ranked if not arm.failed_constraints), None)
        if best is not None and (advised.arm, size) in speedups:
            found.append(
                BatchAdvice(
                    batch_size=size,
                    arm=best.arm,
                    speedup=speedups[best.arm, size],
                    advised_speedup=speedups[advised.arm, size],
                )
            )
    return tuple(found)
