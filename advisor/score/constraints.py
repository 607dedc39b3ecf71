"""What must hold whatever the weights: constraints on letters and on measured figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.constrained_values import value_of
from advisor.domain.constraints import Constraint
from advisor.domain.measurement import Measurement
from advisor.domain.scores import Rating


def failed_constraints(
    ratings: Mapping[str, Rating],
    constraints: Sequence[Constraint],
    measurement: Measurement | None = None,
) -> dict[int, str]:
    """Return why an arm does not meet some constraints, by their indices.

    An unknown figure does not meet a constraint.
    """
    values = [value_of(constraint, ratings, measurement) for constraint in constraints]
    return {
        index: _describe_failure(constraint, value, measurement)
        for index, (constraint, value) in enumerate(zip(constraints, values, strict=True))
        if value is None or not constraint.admits(value)
    }


def _describe_failure(
    constraint: Constraint, value: float | None, measurement: Measurement | None
) -> str:
    """Return the constraint with the value that fails it."""
    has = "unknown" if value is None else constraint.write_measured(value)
    loss = measurement.trained_loss if measurement is not None else None
    if value is None and constraint.asks_for_class and loss and loss.basis == "needs-real-weights":
        has = "unknown with random weights"
    return f"{constraint.criterion} is {has}; the constraint requires {constraint.bound}"
