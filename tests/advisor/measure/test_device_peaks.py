"""Tests of the peaks that the arms of a run may contradict."""

from __future__ import annotations

import builders
import pytest
from builders import BASELINE

from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import ProcessState
from advisor.measure.summary import summarise
from probes.wire.events import Peaks, Workload
from probes.wire.shape import Shape

#: One call, and the device's peak for it in 0.1 s.
FLOPS, PEAK = 1_000, 10_000.0


def peak_with(seconds: float, accuracy_class: str) -> float | None:
    """Return the peak of a run whose compiled arm takes `seconds` for a call."""
    checked = builders.checked(accuracy_class=accuracy_class)
    reference = ProcessState(
        workloads={Shape(1): Workload(shape=Shape(1), flops=FLOPS)},
        peaks=Peaks(bytes_per_second=1e6, operations_per_second={"float32": PEAK}),
    )
    processes = {
        BASELINE: builders.process(*builders.visits([0.2] * 3)),
        "compiled": builders.process(*builders.visits([seconds] * 3), checked={Shape(1): checked}),
        REFERENCE: reference,
    }
    results = summarise(
        builders.run_state(processes), {Shape(1): builders.race_result(1)}, dtype="float32"
    )
    assert results.peaks
    return results.peaks.operations_per_second.get("float32")


@pytest.mark.parametrize(
    ("seconds", "accuracy_class", "expected"),
    [
        (0.1, "exact", PEAK),
        (0.09, "exact", PEAK),
        (0.04, "exact", None),
        (0.04, "close", PEAK),
    ],
)
def test_a_peak_that_an_exact_arm_exceeds_by_far_is_left_out(
    seconds: float, accuracy_class: str, expected: float | None
) -> None:
    assert peak_with(seconds, accuracy_class) == expected
