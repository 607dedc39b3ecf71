"""What bounds a call, and the peaks of the device that it is compared with."""

from __future__ import annotations

import dataclasses
from typing import Any

import builders
import pytest
from builders import BASELINE
from built_measurements import RACES, summarise

from advisor.decide import diagnosis
from advisor.domain.measurement import CallDiagnosis
from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import ProcessState
from probes.wire.events import Diagnosed, Peaks, Workload
from probes.wire.shape import Shape

PEAKS = Peaks(bytes_per_second=1e12, operations_per_second={"float32": 1e13})
ON_GPU = Diagnosed(
    shape=Shape(1),
    kernels_per_call=1240.0,
    launches_per_call=1240.0,
    graph_launches_per_call=0.0,
    device_busy_share=0.95,
)
ON_CPU = Diagnosed(
    shape=Shape(1),
    kernels_per_call=None,
    launches_per_call=None,
    graph_launches_per_call=None,
    device_busy_share=None,
)


def diagnose(diagnosed: Diagnosed | None = ON_GPU, **changes: Any) -> CallDiagnosis:
    """Diagnose a call of a millisecond that is far from all limits."""
    known: dict[str, Any] = {
        "shape": Shape(1),
        "seconds": 1e-3,
        "flops": 10**9,
        "weight_bytes": 10**8,
        "dtype": "float32",
        "peaks": PEAKS,
    }
    return diagnosis.diagnose(diagnosed, **{**known, **changes})


def with_busy_share(share: float) -> Diagnosed:
    return dataclasses.replace(ON_GPU, device_busy_share=share)


@pytest.mark.parametrize(
    ("found", "bound"),
    [
        (diagnose(with_busy_share(0.31)), "launch"),
        (diagnose(weight_bytes=7 * 10**8), "memory"),
        (diagnose(flops=7 * 10**9), "compute"),
        (diagnose(), "mixed"),
    ],
)
def test_each_bound_is_found(found: CallDiagnosis, bound: str) -> None:
    assert found.bound == bound


def test_a_call_near_a_peak_is_not_launch_bound_however_idle_the_profiler_saw_the_device() -> None:
    assert diagnose(with_busy_share(0.59), flops=9 * 10**9).bound == "compute"


def test_counts_are_null_if_the_profiler_saw_no_kernels() -> None:
    unseen: dict[str, Any] = {
        "kernels_per_call": 0.0,
        "launches_per_call": 0.0,
        "device_busy_share": 0.0,
    }
    found = diagnose(dataclasses.replace(ON_GPU, **unseen), flops=9 * 10**9)
    assert (found.bound, found.kernels_per_call, found.device_busy_share) == ("compute", None, None)


def test_the_headroom_is_the_distance_to_the_nearest_peak() -> None:
    assert diagnose(weight_bytes=8 * 10**8, flops=10**9).headroom == pytest.approx(0.2)
    assert diagnose(weight_bytes=None, flops=4 * 10**9).headroom == pytest.approx(0.6)
    assert diagnose(flops=2 * 10**10).headroom == 0.0, "faster than the peak that was measured"


def test_weights_above_the_memory_bandwidth_are_cached() -> None:
    found = diagnose(weight_bytes=2 * 10**9)
    assert found.memory_share is None
    assert found.bound == "mixed"
    assert found.headroom == pytest.approx(0.9)


def test_a_cpu_has_no_launch_counts() -> None:
    found = diagnose(ON_CPU)
    assert (found.kernels_per_call, found.device_busy_share) == (None, None)
    assert found.bound == "mixed"


def test_unknown_figures_are_null() -> None:
    found = diagnose(None, flops=None, weight_bytes=None, peaks=None)
    assert (found.memory_share, found.compute_share, found.headroom) == (None, None, None)
    assert found.bound == "unknown"


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
    results = summarise(builders.run_state(processes), RACES)
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
