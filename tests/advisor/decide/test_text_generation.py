"""Tests of the metrics of text generation."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import builders
import pytest
from builders import BASELINE

from advisor.decide.summary import summarise
from advisor.domain.measurement import GenerationMetrics
from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import ProcessState
from probes.wire.events import Engagement, Loaded, Peaks, Workload
from probes.wire.shape import Shape

LOADED = Loaded(
    seconds=1.0,
    parameters=500,
    parameter_bytes=1000,
    weights="seeded random",
    unit="tokens",
    units_per_sample=32,
)
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
) -> tuple[GenerationMetrics | None, float]:
    """Return the arm's metrics at batch size 4, and its throughput.

    `stored_bytes` are the bytes of quantised weights.
    """
    visits = [
        dataclasses.replace(visit, first_token_seconds=(first,) if first else ())
        for visit, first in itertools.zip_longest(
            builders.visits(seconds, batch_size=4), first_token_seconds
        )
    ]
    own: dict[str, Any] = {"loaded": dataclasses.replace(LOADED, units_per_sample=output_tokens)}
    if stored_bytes is not None:
        own["engaged"] = Engagement(share=1.0, proof="", facts={}, weight_bytes=stored_bytes)
    reference = ProcessState(workloads={Shape(4): workload}, peaks=peaks)
    processes = {
        BASELINE: builders.process(*visits),
        "compiled": builders.process(*visits, **own),
        REFERENCE: reference,
    }
    results = summarise(
        builders.run_state(processes), {Shape(4): builders.race_result(4)}, dtype="bfloat16"
    )
    (cell,) = next(
        measurement for measurement in results.measurements if measurement.arm == "compiled"
    ).cells
    return cell.generation, cell.throughput.value


def test_throughput_counts_the_generated_tokens_of_the_batch() -> None:
    _, throughput = metrics_of()
    assert throughput == pytest.approx(4 * 32 / 0.4)


def test_the_first_token_is_timed_in_the_visits_of_the_race() -> None:
    found, _ = metrics_of(first_token_seconds=(0.08, 0.09, 5.0))
    assert found is not None
    assert found.itl_seconds is not None
    assert found.ttft_seconds == 0.09
    assert found.ttft_seconds + 31 * found.itl_seconds == pytest.approx(0.4)
    assert found.latency_mismatch is None


@pytest.mark.parametrize("whole", [0.3, 0.365, 0.435, 0.5])
def test_latencies_that_do_not_add_up_to_a_call_have_a_reason(whole: float) -> None:
    """They come from one of the visits, and the others took another time."""
    found, _ = metrics_of(first_token_seconds=(0.1,), seconds=(whole, *[0.4] * 8))
    assert found is not None
    assert (found.latency_mismatch is not None) == (abs(whole - 0.4) > 0.04)


def test_latencies_and_utilisation_follow_from_calls_for_one_and_all_tokens() -> None:
    found, _ = metrics_of()
    assert found is not None
    assert found.ttft_seconds == 0.1
    assert found.itl_seconds == pytest.approx((0.4 - 0.1) / 31)
    assert found.tokens_per_second_per_user == pytest.approx(31 / (0.4 - 0.1))
    assert found.cache_bytes == 256
    assert found.mbu == pytest.approx(1_500 / (0.3 / 31) / 1e6)
    assert found.mfu == pytest.approx(41_000 / 0.4 / 1e6)


def test_quantised_weights_use_less_of_the_memory_bandwidth() -> None:
    native = LOADED.parameter_bytes
    assert native is not None
    # A step reads some of the weights, and the cache of 256 bytes.
    read = native // 5
    workload = dataclasses.replace(WORKLOAD, step_bytes=read + 256)
    shares = []
    for stored in (None, native, native // 4):
        found, _ = metrics_of(workload, stored_bytes=stored)
        assert found is not None
        assert found.mbu is not None
        shares.append(found.mbu)
    assert shares[0] == shares[1]
    assert shares[2] / shares[0] == pytest.approx((read / 4 + 256) / (read + 256))


def test_metrics_that_were_not_measured_are_null() -> None:
    found, _ = metrics_of(first_token_seconds=())
    assert found == GenerationMetrics(
        ttft_seconds=None,
        itl_seconds=None,
        tokens_per_second_per_user=None,
        cache_bytes=256,
        mbu=None,
        mfu=None,
        method=found.method if found else "",
    )
    without_peaks, _ = metrics_of(peaks=None)
    assert without_peaks is not None
    assert (without_peaks.mbu, without_peaks.mfu) == (None, None)


def test_a_text_of_one_token_has_no_inter_token_latency() -> None:
    found, _ = metrics_of(output_tokens=1)
    assert found is not None
    assert (found.itl_seconds, found.tokens_per_second_per_user, found.mbu) == (None, None, None)


def test_a_forward_pass_has_no_generation_metrics() -> None:
    found, _ = metrics_of(Workload(shape=Shape(4), flops=41_000))
    assert found is None
