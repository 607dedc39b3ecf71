"""The best arms under one further condition: at a batch size, exact, or with native weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.decision import BatchAdvice, ScoredArm
from advisor.domain.measurement import Results
from advisor.domain.question import WeightFormat


def find_best_native(
    scored: Sequence[ScoredArm], formats: Mapping[str, WeightFormat]
) -> str | None:
    """Return the first arm by rank that meets the constraints and has no quantised weights."""
    ranked = sorted(scored, key=lambda arm: arm.rank)
    return next((arm.arm for arm in ranked if arm.arm not in formats and not arm.fails), None)


def find_best_exact(scored: Sequence[ScoredArm], results: Results) -> str | None:
    """Return the first arm by rank that meets the constraints and whose outputs are exact."""
    exact = {
        entry.arm
        for entry in results.measurements
        if all(checked.accuracy_class == "exact" for checked in entry.correctness)
    }
    ranked = sorted(scored, key=lambda arm: arm.rank)
    return next((arm.arm for arm in ranked if arm.arm in exact and not arm.fails), None)


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
        best = next((arm for arm in ranked if not arm.fails), None)
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
