"""The memory of an arm, the times of its texts, and what bounds a call."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import builders
import pytest
from built_measurements import RACES, summarise
from recorded_runs import OPENED

from advisor.decide import diagnosis, process_figures
from advisor.decide.results import collect_results
from advisor.domain.measurement import CallDiagnosis, GenerationMetrics
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import DeviceMemory, MemoryChecked
from advisor.domain.run_state import ProcessState
from probes.events import Diagnosed, Engagement, MemoryRead, Peaks, Workload
from probes.shape import Shape

MEBIBYTE = 1 << 20
TOTAL = 80 << 30
DEVICE = DeviceMemory(
    arm="compiled",
    process=0,
    peak_bytes=900 * MEBIBYTE,
    serving_bytes=800 * MEBIBYTE,
    total_bytes=TOTAL,
)
HOST = MemoryRead(peak_rss_bytes=300, device_reserved_bytes=256 * MEBIBYTE)


def summarise_process(
    device: DeviceMemory | None = DEVICE,
    host: MemoryRead | None = HOST,
    checked: MemoryChecked | None = None,
    last: MemoryRead | None = None,
) -> Any:
    process = builders.process(device_memory=device, warm_memory=host, memory=last or host)
    return process_figures.summarise_memory(process, checked)


def checked_allocation(mebibytes: float | None) -> MemoryChecked:
    return MemoryChecked(
        allocated_bytes=256 * MEBIBYTE,
        seen_bytes=None if mebibytes is None else round(mebibytes * MEBIBYTE),
    )


def test_the_spread_of_the_memory_is_that_of_all_processes() -> None:
    first, second = (
        builders.process(memory=MemoryRead(peak_rss_bytes=peak, device_reserved_bytes=None))
        for peak in (300, 200)
    )
    found = process_figures.memory_of_processes(first, (first, second), None)
    assert (found.peak, found.spread) == (300, (200, 300))
    assert process_figures.memory_of_processes(first, (first,), None).spread is None


def test_the_memory_of_an_interrupted_process_is_that_of_a_later_one() -> None:
    first = builders.process(device_memory=None, warm_memory=HOST, memory=HOST)
    second = builders.process(device_memory=DEVICE, warm_memory=HOST, memory=HOST)
    found = process_figures.memory_of_processes(first, (first, second), checked_allocation(256))
    assert found.peak == DEVICE.peak_bytes


ON_CPU = builders.replace(HOST, device_reserved_bytes=None)


@pytest.mark.parametrize(
    ("host", "checked", "peak", "source"),
    [
        (HOST, None, None, process_figures.PENDING_SOURCE),
        (ON_CPU, checked_allocation(256), None, process_figures.PENDING_SOURCE),
        (ON_CPU, None, 300, process_figures.HOST_SOURCE),
        (builders.replace(ON_CPU, peak_rss_bytes=None), None, None, "not measured"),
        (None, None, None, "not measured"),
    ],
)
def test_memory_of_the_host_counts_without_a_gpu_alone(
    host: MemoryRead | None, checked: MemoryChecked | None, peak: int | None, source: str
) -> None:
    found = summarise_process(device=None, host=host, checked=checked)
    assert (found.peak, found.source) == (peak, source)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"peak_bytes": None}, "does not report"),
        ({"peak_bytes": 0}, "in some containers"),
        ({"peak_bytes": -5}, "in some containers"),
        ({"peak_bytes": TOTAL + 1}, "more memory than the device has"),
        ({"peak_bytes": 255 * MEBIBYTE}, "less than PyTorch alone"),
    ],
)
def test_implausible_memory_is_null_with_the_reason(changes: dict[str, Any], reason: str) -> None:
    found = summarise_process(builders.replace(DEVICE, **changes))
    assert (found.peak, found.serving) == (None, None)
    assert found.source.startswith("not known: ")
    assert reason in found.source


@pytest.mark.parametrize(
    ("held", "peak"), [(56, 700 + 200), (256, 700), (None, 700)], ids=["released", "kept", "unread"]
)
def test_what_the_allocator_released_before_the_end_belongs_to_the_peak(
    held: int | None, peak: int
) -> None:
    freed = builders.replace(DEVICE, peak_bytes=700 * MEBIBYTE, source="freed")
    held_bytes = None if held is None else held * MEBIBYTE
    host = builders.replace(HOST, device_held_bytes=held_bytes)
    assert summarise_process(freed, host).peak == peak * MEBIBYTE
    assert summarise_process(DEVICE, host).peak == DEVICE.peak_bytes


@pytest.mark.parametrize("source", ["grown", "freed"])
def test_batch_sizes_that_were_tried_later_are_no_part_of_the_peak(source: Any) -> None:
    device = builders.replace(DEVICE, source=source)
    last = builders.replace(HOST, device_reserved_bytes=1800 * MEBIBYTE)
    assert summarise_process(device, last=last).peak == 900 * MEBIBYTE


def test_a_worker_that_released_memory_may_free_less_at_its_end_than_it_had_reserved() -> None:
    freed = builders.replace(DEVICE, peak_bytes=100 * MEBIBYTE, source="freed")
    host = builders.replace(HOST, device_held_bytes=90 * MEBIBYTE)
    assert summarise_process(freed, host).peak == (100 + 256 - 90) * MEBIBYTE
    assert summarise_process(builders.replace(freed, source="grown"), host).peak is None
    assert summarise_process(freed, HOST).peak is None


@pytest.mark.parametrize(
    ("mebibytes", "is_plausible"),
    [
        (256, True),
        (248, True),
        (264, True),
        (247.9, False),
        (264.1, False),
        (0, False),
        (None, False),
    ],
)
def test_memory_is_not_known_if_the_device_miscounts_a_known_allocation(
    mebibytes: float | None, is_plausible: bool
) -> None:
    found = summarise_process(checked=checked_allocation(mebibytes))
    expected = (900 * MEBIBYTE, 800 * MEBIBYTE) if is_plausible else (None, None)
    assert (found.peak, found.serving) == expected
    assert "NVML" in found.source
    assert (found.source == summarise_process().source) is is_plausible


PEAKS = Peaks(bytes_per_second=1e6, operations_per_second={"bfloat16": 1e6})
WORKLOAD = Workload(
    shape=Shape(4), flops=41_000, moved_bytes=40_000, step_bytes=1_500, cache_bytes=256
)


def metrics_of(
    workload: Workload = WORKLOAD,
    peaks: Peaks | None = PEAKS,
    *,
    first_token_seconds: Sequence[float] = (0.1, 0.09, 5.0),
    seconds: Sequence[float] = (0.4, 0.4, 0.4),
    output_tokens: int = 32,
    stored_bytes: int | None = None,
) -> GenerationMetrics | None:
    """Return the arm's metrics at batch size 4.

    `stored_bytes` are the bytes of quantised weights.
    """
    visits = [
        builders.replace(visit, first_token_seconds=(first,) if first else ())
        for visit, first in itertools.zip_longest(
            builders.visits(seconds, batch_size=4), first_token_seconds
        )
    ]
    own: dict[str, Any] = {"opened": builders.replace(OPENED, units_per_sample=output_tokens)}
    if stored_bytes is not None:
        own["engaged"] = Engagement(share=1.0, proof="", facts={}, weight_bytes=stored_bytes)
    reference = ProcessState(workloads={Shape(4): workload}, peaks=peaks)
    processes = {
        builders.BASELINE: builders.process(*visits),
        "compiled": builders.process(*visits, **own),
        REFERENCE: reference,
    }
    results = collect_results(
        builders.run_state(processes),
        {Shape(4): builders.race_result(4)},
        builders.question(dtype="bfloat16"),
        builders.NOISE,
    )
    (cell,) = next(
        measurement for measurement in results.measurements if measurement.arm == "compiled"
    ).cells
    return cell.generation


@pytest.mark.parametrize("whole", [0.3, 0.365, 0.435, 0.5])
def test_latencies_that_do_not_add_up_to_a_call_have_a_reason(whole: float) -> None:
    """They come from one of the visits, and the others took another time."""
    found = builders.known(metrics_of(first_token_seconds=(0.1,), seconds=(whole, *[0.4] * 8)))
    assert (found.latency_mismatch is not None) == (abs(whole - 0.4) > 0.04)


def test_latencies_and_utilisation_follow_from_calls_for_one_and_all_tokens() -> None:
    found = builders.known(metrics_of())
    assert found.ttft_seconds == 0.1
    assert found.itl_seconds == pytest.approx((0.4 - 0.1) / 31)
    assert found.latency_mismatch is None
    assert found.tokens_per_second_per_user == pytest.approx(31 / (0.4 - 0.1))
    assert found.cache_bytes == 256
    assert found.mbu == pytest.approx(1_500 / (0.3 / 31) / 1e6)
    assert found.mfu == pytest.approx(41_000 / 0.4 / 1e6)


def test_quantised_weights_use_less_of_the_memory_bandwidth() -> None:
    native = builders.known(OPENED.parameter_bytes)
    # A step reads some of the weights, and the cache of 256 bytes.
    read = native // 5
    workload = builders.replace(WORKLOAD, step_bytes=read + 256)
    shares = []
    for stored in (None, native, native // 4):
        found = builders.known(metrics_of(workload, stored_bytes=stored))
        shares.append(builders.known(found.mbu))
    assert shares[0] == shares[1]
    assert shares[2] / shares[0] == pytest.approx((read / 4 + 256) / (read + 256))


def test_metrics_that_were_not_measured_or_that_a_call_does_not_have_are_null() -> None:
    found = metrics_of(first_token_seconds=())
    assert found == GenerationMetrics(
        ttft_seconds=None,
        itl_seconds=None,
        tokens_per_second_per_user=None,
        cache_bytes=256,
        mbu=None,
        mfu=None,
    )
    without_peaks = builders.known(metrics_of(peaks=None))
    assert (without_peaks.mbu, without_peaks.mfu) == (None, None)
    one = builders.known(metrics_of(output_tokens=1))
    assert (one.itl_seconds, one.tokens_per_second_per_user, one.mbu) == (None, None, None)
    assert metrics_of(Workload(shape=Shape(4), flops=41_000)) is None, "it generates no text"


COUNTS_ON_GPU = Diagnosed(
    shape=Shape(1),
    kernels_per_call=1240.0,
    launches_per_call=1240.0,
    graph_launches_per_call=0.0,
    device_busy_share=0.95,
)
COUNTS_ON_CPU = builders.replace(
    COUNTS_ON_GPU, **dict.fromkeys(vars(COUNTS_ON_GPU).keys() - {"shape"})
)


def diagnose(diagnosed: Diagnosed | None = COUNTS_ON_GPU, **changes: Any) -> CallDiagnosis:
    """Diagnose a call of a millisecond that is far from all limits."""
    known: dict[str, Any] = {
        "shape": Shape(1),
        "seconds": 1e-3,
        "flops": 10**9,
        "weight_bytes": 10**8,
        "dtype": "float32",
        "peaks": Peaks(bytes_per_second=1e12, operations_per_second={"float32": 1e13}),
    }
    return diagnosis.diagnose(diagnosed, **{**known, **changes})


def with_busy_share(share: float) -> Diagnosed:
    return builders.replace(COUNTS_ON_GPU, device_busy_share=share)


UNSEEN = builders.replace(with_busy_share(0.0), kernels_per_call=0.0, launches_per_call=0.0)
COUNTS = {"kernels_per_call", "device_busy_share"}


@pytest.mark.parametrize(
    ("found", "bound", "unknown"),
    [
        (diagnose(with_busy_share(0.31)), "launch", set()),
        (diagnose(weight_bytes=7 * 10**8), "memory", set()),
        (diagnose(flops=7 * 10**9), "compute", set()),
        (diagnose(), "mixed", set()),
        # The profiler cannot be right: reading the weights alone takes more of the call.
        (diagnose(with_busy_share(0.31), weight_bytes=5 * 10**8), "mixed", set()),
        # Near a peak, however idle the profiler saw the device.
        (diagnose(with_busy_share(0.59), flops=9 * 10**9), "compute", set()),
        # The profiler saw no kernels.
        (diagnose(UNSEEN, flops=9 * 10**9), "compute", COUNTS),
        # Weights above the memory bandwidth are cached.
        (diagnose(weight_bytes=2 * 10**9), "mixed", {"memory_share"}),
        # Small weights stay in a cache however fast the call.
        (diagnose(weight_bytes=10**6, seconds=1.5e-6), "compute", {"memory_share"}),
        (diagnose(weight_bytes=2 * 10**6, seconds=3e-6, flops=0), "memory", set()),
        (diagnose(COUNTS_ON_CPU), "mixed", COUNTS),
        (
            diagnose(None, flops=None, weight_bytes=None, peaks=None),
            "unknown",
            {"memory_share", "compute_share", "headroom"},
        ),
    ],
)
def test_each_bound_is_found_and_unknown_figures_are_null(
    found: CallDiagnosis, bound: str, unknown: set[str]
) -> None:
    assert found.bound == bound
    assert all(getattr(found, name) is None for name in unknown)


def test_the_headroom_is_the_distance_to_the_nearest_peak() -> None:
    assert diagnose(weight_bytes=8 * 10**8, flops=10**9).headroom == pytest.approx(0.2)
    assert diagnose(weight_bytes=8 * 10**8, flops=None).headroom is None, "it may be smaller"
    assert diagnose(weight_bytes=None, flops=4 * 10**9).headroom is None
    assert diagnose(flops=2 * 10**10).headroom == 0.0, "faster than the peak that was measured"


#: One call, and the device's peak for it in 0.1 s.
FLOPS, PEAK = 1_000, 10_000.0


@pytest.mark.parametrize(
    ("seconds", "accuracy_class", "expected"),
    [(0.1, "exact", PEAK), (0.09, "exact", PEAK), (0.04, "exact", None), (0.04, "close", PEAK)],
)
def test_a_peak_that_an_exact_arm_exceeds_by_far_is_left_out(
    seconds: float, accuracy_class: str, expected: float | None
) -> None:
    checked = builders.checked(accuracy_class=accuracy_class)
    reference = ProcessState(
        workloads={Shape(1): Workload(shape=Shape(1), flops=FLOPS)},
        peaks=Peaks(bytes_per_second=1e6, operations_per_second={"float32": PEAK}),
    )
    processes = {
        builders.BASELINE: builders.process(*builders.visits([0.2] * 3)),
        "compiled": builders.process(*builders.visits([seconds] * 3), checked={Shape(1): checked}),
        REFERENCE: reference,
    }
    peaks = builders.known(summarise(builders.run_state(processes), RACES).peaks)
    assert peaks.operations_per_second.get("float32") == expected
