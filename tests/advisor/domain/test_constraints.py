"""Tests of what the user requires of a workflow."""

from __future__ import annotations

import pytest

from advisor.domain.constraints import Constraint


@pytest.mark.parametrize(
    ("constraint", "value", "text"),
    [
        (Constraint(criterion="speedup", at_least=3.0), 2.77633, "2.78x"),
        (Constraint(criterion="speedup", at_least=2.8), 2.79964, "2.7996x"),
        (Constraint(criterion="build", at_most=5.0), 5.86001, "5.86s"),
        (Constraint(criterion="ttft", at_most=0.2), 0.20123456, "201ms"),
        (Constraint(criterion="memory", at_most=200 * 2**20), 300.4 * 2**20, "300MiB"),
        (Constraint(criterion="portability", at_least=2), 1, "C"),
    ],
)
def test_a_measured_value_has_few_digits_and_never_seems_to_meet_the_bound(
    constraint: Constraint, value: float, text: str
) -> None:
    assert constraint.write_measured(value) == text
