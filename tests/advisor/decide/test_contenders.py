from __future__ import annotations

import builders
import built_measurements
import msgspec
import pytest

from advisor.decide.serving import greatest_goodput, is_saturated, may_lead
from advisor.domain.plan import Plan
from advisor.domain.run_events import LoadMeasured
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.serving import ServedRequest
from probes.wire.events import ClosedLoop
from probes.wire.outcome import Failure, Outcome

LOAD = built_measurements.load()
RULES = builders.shipped_catalogue().serving
GAIN = 1.3


def block(rate: float, met: int, missed: int) -> LoadMeasured:
    times = [0.1] * met + [2.0] * missed
    return LoadMeasured(
        arm="slow",
        process=0,
        rate=rate,
        seconds=10.0,
        requests=tuple(
            ServedRequest(at=1.0, late=0.0, ttft=ttft, seconds=ttft, itl=0.01, output_tokens=4)
            for ttft in times
        ),
        discarded=False,
    )


def loop(rate: float, concurrency: int = 1) -> ClosedLoop:
    return ClosedLoop(concurrency=concurrency, requests=round(rate * 10), failed=0, seconds=10.0)


def process(
    *, loops: tuple[float, ...] = (), blocks: tuple[LoadMeasured, ...] = ()
) -> ProcessState:
    return ProcessState(closed_loops=tuple(map(loop, loops)), load_blocks=blocks)


def ladder(factor: float) -> tuple[LoadMeasured, ...]:
    """Return blocks of a server whose goodput is about ten times the factor."""
    shares = ((4.0, 80, 0), (6.0, 80, 0), (8.0, 80, 0), (10.0, 98, 2), (12.0, 20, 100))
    return tuple(block(rate * factor, met, missed) for rate, met, missed in shares)


FAST = process(blocks=ladder(1.0))


def state_of(slow: ProcessState, fast: ProcessState = FAST) -> RunState:
    plan = Plan(arms=(builders.arm("slow"), builders.arm("fast")), excluded=())
    return RunState(plan=plan, processes={"slow": (slow,), "fast": (fast,)})


@pytest.mark.parametrize(
    ("rates", "saturated"),
    [((), False), ((2.0,), False), ((2.0, 5.0), False), ((2.0, 2.4), True), ((2, 5, 4), True)],
)
def test_a_server_is_saturated_when_more_requests_at_once_are_no_faster(
    rates: tuple[float, ...], saturated: bool
) -> None:
    assert is_saturated([loop(rate) for rate in rates], GAIN) is saturated


def test_the_goodput_is_below_capacity_and_below_rates_that_half_of_the_requests_miss() -> None:
    assert greatest_goodput([process(loops=(2.0, 2.4))], LOAD, GAIN) == 2.4
    assert greatest_goodput([process(loops=(2.0, 5.0))], LOAD, GAIN) is None
    missed = process(blocks=(block(1.0, 30, 2), block(1.5, 20, 12), block(2.0, 5, 30)))
    assert greatest_goodput([missed], LOAD, GAIN) == 2.0


def test_an_arm_cannot_lead_that_cannot_reach_half_of_anothers_goodput() -> None:
    assert RULES is not None
    for slow, expected in (
        (process(loops=(1.0, 1.1)), False),
        (process(loops=(7.0, 7.1)), True),
        (process(loops=(1.0, 4.0)), True),
        (process(blocks=(block(1.0, 5, 30),)), False),
    ):
        assert may_lead(state_of(slow), "slow", LOAD, RULES, 0) is expected
    assert may_lead(state_of(process(loops=(1.0, 1.1))), "fast", LOAD, RULES, 0)


def test_an_arm_cannot_lead_whose_interval_is_below_another_one() -> None:
    assert RULES is not None
    slow = process(blocks=ladder(0.4))
    assert not may_lead(state_of(slow), "slow", LOAD, RULES, 0)
    near = process(blocks=ladder(0.9))
    assert may_lead(state_of(near), "slow", LOAD, RULES, 0)


def test_a_failed_arm_excludes_no_other_one() -> None:
    assert RULES is not None
    failed = msgspec.structs.replace(
        FAST, outcome=Outcome(Failure("incorrect", phase="sustain", reason="wrong"))
    )
    state = state_of(process(loops=(1.0, 1.1)), failed)
    assert may_lead(state, "slow", LOAD, RULES, 0)


def test_runs_of_earlier_versions_measure_every_arm_finely() -> None:
    assert RULES is not None
    rules = msgspec.structs.replace(RULES, far_below=0.0)
    assert may_lead(state_of(process(loops=(1.0, 1.1))), "slow", LOAD, rules, 0)
