"""Reasons that are drawn from the measurements of other arms than the advised one."""

from __future__ import annotations

import builders
import msgspec
import pytest

from advisor.domain.accuracy import CheckVerdict
from advisor.domain.measurement import CallDiagnosis
from advisor.recommendation.reasons import explain_precision


def diagnosis(compute_share: float | None) -> CallDiagnosis:
    return CallDiagnosis(
        batch_size=1,
        operators_per_call=None,
        kernels_per_call=None,
        launches_per_call=None,
        graph_launches_per_call=None,
        host_copies_per_call=None,
        device_busy_share=None,
        enqueue_share=None,
        memory_share=None,
        compute_share=compute_share,
        headroom=None,
        bound="compute",
        summary="",
    )


@pytest.mark.parametrize(
    ("verdict", "compute_share", "is_lower"),
    [
        ("near", 1.49, True),
        # Rounding of another kind, or a peak that was measured in a slow moment.
        ("near", 0.9, False),
        ("near", None, False),
        ("equivalent", 1.49, False),
    ],
)
def test_an_inexact_arm_above_the_peak_computes_in_a_lower_precision(
    verdict: CheckVerdict, compute_share: float | None, is_lower: bool
) -> None:
    arm = msgspec.structs.replace(
        builders.measurement("compiled"),
        correctness=(builders.checked(verdict=verdict),),
        diagnosis=(diagnosis(0.1), diagnosis(compute_share)),
    )
    found = explain_precision([arm], "float32")
    assert bool(found) == is_lower
    assert all("compiled" in each and "float32" in each for each in found)
