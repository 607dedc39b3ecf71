"""Constraints on letters and on measured figures, which must hold whatever the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.accuracy import LossClass
from advisor.domain.constraints import FIGURES, Constraint, FailedConstraint
from advisor.domain.measurement import Measurement
from advisor.domain.priorities import CRITERIA
from advisor.domain.scores import Rating

#: Numbers of the classes of losses, as those of letters.
CLASS_NUMBERS: dict[LossClass, int] = {"A": 3, "B": 2, "C": 1, "worse": 0}


def value_of(
    constraint: Constraint, ratings: Mapping[str, Rating], measurement: Measurement | None
) -> float | None:
    """Return the letter's number or the figure that a constraint is about; None if unknown."""
    if constraint.criterion in CRITERIA:
        return ratings[constraint.criterion].tier
    if measurement is None:
        return None
    if constraint.asks_for_class:
        return class_number(measurement)
    return FIGURES[constraint.criterion].get(measurement)


def class_number(measurement: Measurement) -> int | None:
    """Return the number of the class of what an arm loses of the model; None if it is unknown.

    Exact outputs lose nothing, so they have class A where no text and no metric was measured.
    """
    loss = measurement.trained_loss
    if loss is not None and loss.loss_class is not None:
        return CLASS_NUMBERS[loss.loss_class]
    checks = measurement.correctness
    is_exact = bool(checks) and all(each.accuracy_class == "exact" for each in checks)
    return CLASS_NUMBERS["A"] if is_exact else None


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
