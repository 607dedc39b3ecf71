"""The size of a visit, its inputs and durations, and when a program is warm."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from fake_clock import FakeClock, no_op, no_synchronize, replace_clocks

from probes import timing
from probes.events import Visited, WarmedUp
from probes.shape import Shape
from probes.timing import Timer, VisitSize

ONE_AND_THREE = VisitSize(calls=3, warmup_calls=1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    replace_clocks(monkeypatch, timing, clock)
    return clock


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Enable the garbage collector again after each test."""
    yield
    gc.enable()


@pytest.mark.parametrize(
    ("typical_seconds", "expected"),
    [
        (1e-6, VisitSize(calls=200, warmup_calls=2)),
        (0.00099, VisitSize(calls=51, warmup_calls=2)),
        (0.001, VisitSize(calls=50, warmup_calls=1)),
        (0.003, VisitSize(calls=17, warmup_calls=1)),
        (0.01, VisitSize(calls=5, warmup_calls=1)),
        (0.1, VisitSize(calls=5, warmup_calls=1)),
        (0.1001, VisitSize(calls=3, warmup_calls=1)),
        (0.5, VisitSize(calls=3, warmup_calls=1)),
        (0.5001, VisitSize(calls=1, warmup_calls=1)),
        (60.0, VisitSize(calls=1, warmup_calls=1)),
    ],
)
def test_a_visit_fills_its_time_with_a_limited_number_of_calls(
    typical_seconds: float, expected: VisitSize
) -> None:
    assert timing.size_visit(typical_seconds, visit_seconds=0.05) == expected


def time_visit(
    call: Callable[[Any], object],
    wait: Callable[[], None] = no_synchronize,
    inputs: Sequence[str] = ("input",),
    size: VisitSize = ONE_AND_THREE,
    round_number: int = 0,
    *,
    streams: bool = False,
    host: Any = None,
) -> Visited:
    timer = Timer(call, inputs, wait)
    return timing.time_visit(
        timer, size, shape=Shape(1), round_number=round_number, streams=streams, host=host
    )


def warm_up(
    wait: Callable[[], None],
    min_seconds: float,
    call: Callable[[Any], object] = no_op,
    inputs: Sequence[str] = ("input",),
) -> WarmedUp:
    return timing.warm_up(Timer(call, inputs, wait), min_seconds, Shape(1))


def test_a_duration_includes_the_call_and_the_wait_for_its_end(clock: FakeClock) -> None:
    waits = iter([9.0, 0.25, 0.5, 0.125])
    timed = time_visit(lambda _: clock.advance(1.0), lambda: clock.advance(next(waits)))
    assert timed.seconds == (1.25, 1.5, 1.125)
    assert (timed.warmup_seconds, timed.streamed_seconds) == ((10.0,), None)


@dataclasses.dataclass
class ChangingHost:
    """A host with the slowdown of each check; an undisturbed call takes 1/64 s."""

    clock: FakeClock
    slowdowns: Sequence[float]
    most_slowdown: float = 1.3
    #: Seconds of a search for a fast processor.
    search_seconds: float = 0.0
    checks: int = 0
    moves: int = 0

    def slowdown(self) -> float:
        self.checks += 1
        return self.slowdowns[min(self.checks, len(self.slowdowns)) - 1]

    def settle(self) -> None:
        self.moves += 1
        self.clock.advance(self.search_seconds)

    def call(self, _: object) -> None:
        self.clock.advance(self.slowdowns[min(self.checks, len(self.slowdowns)) - 1] / 64)


SIX_CALLS = VisitSize(calls=6, warmup_calls=1)


def test_calls_next_to_a_slow_check_of_the_host_are_replaced(clock: FakeClock) -> None:
    # The check after the second call is slow, and so is the call before it; then the thread moves.
    host = ChangingHost(clock, [1.0, 1.0, 3.0, 1.0, 1.0, 1.25])
    timed = time_visit(host.call, size=SIX_CALLS, host=host)
    assert [64 * second for second in timed.seconds] == [1.0, 1.0, 1.0, 1.25, 1.25, 1.25]
    assert timed.host_slowdown == pytest.approx(1.25)
    assert host.moves == 2, "before the calls, and after the slow check"


@pytest.mark.parametrize(("size", "calls"), [(SIX_CALLS, 12), (ONE_AND_THREE, 3)])
def test_on_an_always_slow_host_all_calls_count_and_few_long_ones_are_not_replaced(
    size: VisitSize, calls: int, clock: FakeClock
) -> None:
    host = ChangingHost(clock, [1.0, 2.0])
    timed = time_visit(host.call, size=size, host=host)
    assert (len(timed.seconds), timed.host_slowdown) == (calls, 2.0)


def test_a_slow_host_does_not_disturb_a_call_that_mostly_waits_for_the_device(
    clock: FakeClock,
) -> None:
    host = ChangingHost(clock, [1.0, 2.0])
    timed = time_visit(host.call, lambda: clock.advance(6 / 64), size=SIX_CALLS, host=host)
    assert (len(timed.seconds), timed.host_slowdown, host.moves) == (6, 1.25, 1)


def test_a_fast_processor_is_searched_for_as_long_as_the_calls_take(clock: FakeClock) -> None:
    # A search with its warm-up call takes as long as four calls.
    host = ChangingHost(clock, [1.0, 2.0], search_seconds=6 / 64)
    time_visit(host.call, size=SIX_CALLS, host=host)
    assert host.moves == 4, "before the calls, and after the first, fifth and ninth of twelve"


@pytest.mark.parametrize(
    ("round_number", "expected"),
    [(0, "abcabc"), (1, "bcabca"), (2, "cabcab"), (3, "abcabc"), (7, "bcabca")],
)
def test_inputs_rotate_from_that_of_the_round_on(round_number: int, expected: str) -> None:
    called: list[str] = []
    size = VisitSize(calls=4, warmup_calls=2)
    time_visit(called.append, inputs="abc", size=size, round_number=round_number)
    assert "".join(called) == expected


@pytest.mark.parametrize(
    ("call_seconds", "calls", "streamed"), [(0.01, 100, 30), (0.126, 15, 0), (1.0, 5, 0)]
)
def test_a_visit_ends_early_where_other_work_slows_its_calls(
    clock: FakeClock, call_seconds: float, calls: int, streamed: int
) -> None:
    size = VisitSize(calls=100, warmup_calls=1)
    timed = time_visit(lambda _: clock.advance(call_seconds), size=size, streams=True)
    assert timed.seconds == pytest.approx((call_seconds,) * calls)
    assert timed.streamed_seconds == (pytest.approx(call_seconds) if streamed else None)
    assert clock.perf_counter() == pytest.approx(call_seconds * (1 + calls + streamed))


def test_a_streaming_device_repeats_the_calls_without_waiting_in_between(clock: FakeClock) -> None:
    happened: list[str] = []

    def wait() -> None:
        happened.append("wait")
        clock.advance(1.5)

    def call(_: object) -> None:
        happened.append("call")
        clock.advance(0.5)

    timed = time_visit(call, wait, streams=True)
    assert happened == ["call", "wait"] * 4 + ["call"] * 3 + ["wait"]
    assert timed.seconds == (2.0,) * 3
    assert timed.streamed_seconds == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("working", "waiting", "streams"), [(0.5, 0.001, False), (0.05, 0.001, True), (0.5, 0.1, True)]
)
def test_a_long_blocking_call_is_not_repeated(
    clock: FakeClock, working: float, waiting: float, *, streams: bool
) -> None:
    calls: list[float] = []

    def call(_: object) -> None:
        calls.append(working)
        clock.advance(working)

    size = VisitSize(calls=2, warmup_calls=1)
    timed = time_visit(call, lambda: clock.advance(waiting), size=size, streams=True)
    assert (timed.streamed_seconds is not None) is streams
    assert len(calls) == (5 if streams else 3)


def test_garbage_collection_is_disabled_during_the_calls() -> None:
    disabled: list[bool] = []
    time_visit(lambda _: disabled.append(not gc.isenabled()))
    assert disabled == [True] * 4
    assert gc.isenabled()


@pytest.mark.parametrize(
    "size",
    [VisitSize(calls=1, warmup_calls=0), VisitSize(calls=0, warmup_calls=1)],
    ids=["kept", "lead"],
)
def test_garbage_collection_is_enabled_again_after_a_call_that_raises(size: VisitSize) -> None:
    def call(_: object) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        time_visit(call, size=size)
    assert gc.isenabled()


def test_garbage_is_collected_before_the_first_call() -> None:
    class Loop:
        def __init__(self, on_delete: Callable[[], None]) -> None:
            self.itself = self
            self.on_delete = on_delete

        def __del__(self) -> None:
            self.on_delete()

    happened: list[str] = []
    Loop(lambda: happened.append("collected"))
    time_visit(happened.append, inputs=["call"], size=VisitSize(calls=1, warmup_calls=0))
    assert happened == ["collected", "call"]


@pytest.mark.parametrize(
    ("seconds", "min_seconds", "calls", "steady", "typical"),
    [
        pytest.param([0.125], 5.0, (40, 40), True, 0.125, id="steady"),
        pytest.param([0.01] * 99 + [0.0075] * 999, 1.2, (100, 999), True, 0.0075, id="late step"),
        pytest.param(
            [0.01 + 0.0003 * call for call in range(60)] + [0.01] * 999,
            0.3,
            (61, 100),
            True,
            0.01,
            id="slowed more and more by others, then no longer",
        ),
        pytest.param([0.16, 0.24], 0.5, (10, 10), False, None, id="long calls"),
        pytest.param([30.0] * 3 + [0.01] * 999, 0.2, (12, 999), True, 0.01, id="compiles first"),
        pytest.param([1.0], 0.2, (5, 5), True, 1.0, id="few very long calls"),
        pytest.param(range(10, 0, -1), 0.2, (5, 5), False, None, id="very long and falling"),
        pytest.param(
            [0.0001 * call for call in range(1, 9999)], 0.5, (5, 9999), False, None, id="rising"
        ),
    ],
)
def test_a_warm_up_ends_once_its_calls_are_steady_or_at_its_limit(
    seconds: Sequence[float],
    min_seconds: float,
    calls: tuple[int, int],
    steady: bool,
    typical: float | None,
    clock: FakeClock,
) -> None:
    turns, called = itertools.cycle(seconds), list[str]()
    found = warm_up(lambda: clock.advance(float(next(turns))), min_seconds, called.append)
    assert calls[0] <= len(called) <= calls[1]
    assert found.steady is steady
    if typical is not None:
        assert found.typical_seconds == pytest.approx(typical)


def test_the_warm_up_uses_all_inputs(clock: FakeClock) -> None:
    called: list[str] = []
    warm_up(lambda: clock.advance(0.1), 0.4, called.append, "abc")
    assert "".join(called).startswith("abcab")


def test_sustained_calls_fill_their_time(clock: FakeClock) -> None:
    calls, seconds = timing.sustain(Timer(no_op, "ab", lambda: clock.advance(0.3)), 1.0)
    assert calls == 4
    assert seconds == pytest.approx(1.2)


def test_a_model_that_replaces_the_clock_does_not_change_the_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("perf_counter", "perf_counter_ns", "time"):
        monkeypatch.setattr(time, name, lambda: 0)
    assert min(time_visit(lambda _: sum(range(10_000))).seconds) > 0


Trace = Callable[[int], float]
MIN_SECONDS, TYPICAL_SECONDS = 0.2, 0.001
TRACES: dict[str, Trace] = {
    "first call only": lambda number: 1000.0 if number == 0 else 1.0,
    "three calls to record a graph": lambda number: (
        (3000.0, 50.0, 20.0)[number] if number < 3 else 1.0
    ),
    "exponential over 20 calls": lambda number: (
        (500 if number == 0 else 1) * (1 + math.exp(-number / 20))
    ),
    "step at call 100": lambda number: (
        (500 if number == 0 else 1) * (1.25 if number < 100 else 1.0)
    ),
}


def warm_up_trace(clock: FakeClock, trace: Trace, traces: int) -> list[tuple[float, bool]]:
    """Return, by trace, the relative error of the typical duration and whether it is steady.

    Calls take the duration of the trace, with noise.
    """

    def call(generator: random.Random, durations: Iterator[float], _: object) -> None:
        outlier = 1 + generator.expovariate(1 / 0.3) if generator.random() < 0.01 else 1.0
        factor = math.exp(generator.gauss(0, 0.02)) * outlier * next(durations)
        clock.advance(TYPICAL_SECONDS * factor)

    found = []
    for seed in range(traces):
        noisy = functools.partial(call, random.Random(seed), map(trace, itertools.count()))
        result = warm_up(no_synchronize, MIN_SECONDS, noisy)
        found.append((abs(result.typical_seconds / TYPICAL_SECONDS - 1), result.steady))
    return found


def test_the_error_is_within_one_percent_or_unsteady(clock: FakeClock) -> None:
    traces = 40
    for name, trace in TRACES.items():
        found = warm_up_trace(clock, trace, traces)
        bias = sorted(bias for bias, _ in found)[math.ceil(0.95 * traces) - 1]
        assert bias <= 0.01, f"{name}: off by {bias:.1%}"
    slow = warm_up_trace(
        clock,
        lambda number: (500 if number == 0 else 1) * (1 + 0.5 * math.exp(-number / 60)),
        traces,
    )
    assert statistics.fmean(not steady or bias <= 0.02 for bias, steady in slow) >= 0.9
    never = warm_up_trace(clock, lambda number: 1 + number / 200, traces)
    assert statistics.fmean(not steady for _, steady in never) >= 0.9


def test_calls_with_noise_alone_are_steady_from_the_start(clock: FakeClock) -> None:
    found = warm_up_trace(clock, lambda _: 1.0, 200)
    assert all(steady for _, steady in found), "a false alarm in 200 clean warm-ups"


@pytest.mark.parametrize(("count", "enough"), [(4, False), (5, False), (11, False), (12, True)])
def test_few_calls_are_not_enough(count: int, enough: bool) -> None:
    assert timing.find_cut([0.1] * count).enough is enough


def test_the_variances_agree_with_their_definition() -> None:
    generator = random.Random(5)
    values = [1000 + generator.gauss(0, 1) for _ in range(50)]
    expected = [
        statistics.pvariance(values[cut:]) / (len(values) - cut) for cut in range(len(values))
    ]
    assert timing.variances_of_means(values) == pytest.approx(expected)


def test_thousands_of_batches_take_one_pass() -> None:
    assert timing.find_cut([2e-5] * 1000 + [1e-5] * 200_000).calls == 1000
