"""What must hold whatever the weights: constraints on letters and on measured figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.constrained_values import value_of
from advisor.domain.constraints import Constraint, FailedConstraint
from advisor.domain.measurement import Measurement
from advisor.domain.scores import Rating


def find_failures(
    ratings: Mapping[str, Rating],
    constraints: Sequence[Constraint],
    measurement: Measurement | None = None,
) -> tuple[FailedConstraint, ...]:
    """Return the constraints that an arm does not meet; an unknown figure meets none."""
    values = [value_of(constraint, ratings, measurement) for constraint in constraints]
    return tuple(
        FailedConstraint(
            index=index,
            constraint=constraint,
            value=value,
            needs_real_weights=value is None and _needs_real_weights(constraint, measurement),
        )
        for index, (constraint, value) in enumerate(zip(constraints, values, strict=True))
        if value is None or not constraint.admits(value)
    )


def _needs_real_weights(constraint: Constraint, measurement: Measurement | None) -> bool:
    """Return whether the constraint is on a loss that random weights do not show."""
    loss = measurement.trained_loss if measurement is not None else None
    return constraint.asks_for_class and loss is not None and loss.basis == "needs-real-weights"
