"""Figures of generated text: until the first token, between tokens, the cache, and the shares of what the device can do."""

from __future__ import annotations

import builders
import pytest
from builders import BASELINE

from advisor import measure
from advisor.domain.measurement import Generation
from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import ProcessState
from advisor.domain.worker_events import Latency, Loaded, Peaks, Workload

LOADED = Loaded(
    seconds=1.0,
    parameters=500,
    parameter_bytes=1000,
    weights="seeded random",
    unit="tokens",
    units_per_sample=32,
)
LATENCY = Latency(
    batch_size=4,
    output_tokens=32,
    first_token_seconds=(0.1, 0.09, 5.0),
    whole_seconds=(0.41, 0.40, 0.41),
)
PEAKS = Peaks(bytes_per_second=1e6, operations_per_second={"bfloat16": 1e6})
DEMAND = Workload(batch_size=4, flops=41_000, moved_bytes=40_000, step_bytes=1_500, cache_bytes=256)


def figures(
    latency: Latency | None, demand: Workload, peaks: Peaks | None = PEAKS
) -> tuple[Generation | None, float]:
    """Return the arm's figures at batch size 4, and its throughput."""
    visits = builders.visits([0.4, 0.4, 0.4], batch_size=4)
    own = {"loaded": LOADED, "latency": {4: latency} if latency else {}}
    reference = ProcessState(demand={4: demand}, workload={4: demand.flops}, peaks=peaks)
    processes = {
        BASELINE: builders.process(*visits),
        "compiled": builders.process(*visits, **own),
        REFERENCE: reference,
    }
    results = measure.summarise(
        builders.run_state(processes), {4: builders.race_result(4)}, dtype="bfloat16", margin=0.02
    )
    (cell,) = next(
        measurement for measurement in results.measurements if measurement.arm == "compiled"
    ).cells
    return cell.generation, cell.throughput.value


def test_throughput_counts_the_new_tokens_of_the_whole_batch() -> None:
    _, throughput = figures(LATENCY, DEMAND)
    assert throughput == pytest.approx(4 * 32 / 0.4)


def test_the_time_between_tokens_is_what_all_but_the_first_share() -> None:
    found, _ = figures(LATENCY, DEMAND)
    assert found is not None
    assert found.ttft_seconds == 0.1
    assert found.itl_seconds == pytest.approx((0.41 - 0.1) / 31)
    assert found.tokens_per_second_per_user == pytest.approx(31 / (0.41 - 0.1))
    assert found.cache_bytes == 256
    assert found.mbu == pytest.approx(1_500 / 0.01 / 1e6)
    assert found.mfu == pytest.approx(41_000 / 0.41 / 1e6)


def test_what_was_not_measured_is_null() -> None:
    found, _ = figures(None, DEMAND)
    assert found == Generation(
        ttft_seconds=None,
        itl_seconds=None,
        tokens_per_second_per_user=None,
        cache_bytes=256,
        mbu=None,
        mfu=None,
        method=found.method if found else "",
    )
    without_peaks, _ = figures(LATENCY, DEMAND, peaks=None)
    assert without_peaks is not None
    assert (without_peaks.mbu, without_peaks.mfu) == (None, None)


def test_one_token_has_no_time_between_tokens() -> None:
    found, _ = figures(
        Latency(batch_size=4, output_tokens=1, first_token_seconds=(0.1,), whole_seconds=(0.1,)),
        DEMAND,
    )
    assert found is not None
    assert (found.itl_seconds, found.tokens_per_second_per_user, found.mbu) == (None, None, None)


def test_a_forward_pass_has_no_such_figures() -> None:
    found, _ = figures(None, Workload(batch_size=4, flops=41_000))
    assert found is None
