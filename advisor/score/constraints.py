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
    """Return the constraints that an arm does not meet, by its index, with the value it has."""
    return {
        index: describe_failure(constraint, ratings, measurement)
        for index, constraint in enumerate(constraints)
        if not is_met(constraint, ratings, measurement)
    }


def is_met(
    constraint: Constraint, ratings: Mapping[str, Rating], measurement: Measurement | None
) -> bool:
    """Check one constraint; an unknown figure does not meet it."""
    value = value_of(constraint, ratings, measurement)
    return value is not None and constraint.admits(value)


def describe_failure(
    constraint: Constraint, ratings: Mapping[str, Rating], measurement: Measurement | None
) -> str:
    """Return a constraint that is not met with the value that fails it."""
    value = value_of(constraint, ratings, measurement)
    has = "unknown" if value is None else constraint.write_measured(value)
    loss = measurement.trained_loss if measurement is not None else None
    if value is None and constraint.asks_for_class and loss and loss.basis == "needs-real-weights":
        has = "unknown with random weights"
    return f"{constraint.criterion} is {has}; the constraint requires {constraint.bound}"
