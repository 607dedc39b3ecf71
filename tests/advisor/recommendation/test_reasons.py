"""Reasons that are drawn from the measurements of other arms than the advised one."""

from __future__ import annotations

import builders
import msgspec
import pytest

from advisor.recommendation.reasons import explain_precision
from probes.wire.checks import AccuracyClass


@pytest.mark.parametrize(
    ("accuracy_class", "compute_share", "is_lower"),
    [
        ("close", 1.49, True),
        # Rounding of another kind, or a peak that was measured in a slow moment.
        ("close", 0.9, False),
        ("close", None, False),
        ("exact", 1.49, False),
    ],
)
def test_an_inexact_arm_above_the_peak_computes_in_a_lower_precision(
    accuracy_class: AccuracyClass, compute_share: float | None, is_lower: bool
) -> None:
    arm = msgspec.structs.replace(
        builders.measurement("compiled"),
        correctness=(builders.checked(accuracy_class=accuracy_class),),
        diagnosis=tuple(
            builders.call_diagnosis(compute_share=each) for each in (0.1, compute_share)
        ),
    )
    found = explain_precision([arm], "float32")
    assert bool(found) == is_lower
    assert all("compiled" in each and "float32" in each for each in found)
