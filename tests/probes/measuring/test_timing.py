"""The size of a block, its inputs, and its durations."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterator

import pytest
from fake_clock import FakeClock, no_op, no_synchronize, replace_clocks

from probes.measuring import timing
from probes.measuring.timing import Block


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
        (1e-6, Block(calls=200, warmup_calls=2)),
        (0.00099, Block(calls=51, warmup_calls=2)),
        (0.001, Block(calls=50, warmup_calls=1)),
        (0.003, Block(calls=17, warmup_calls=1)),
        (0.01, Block(calls=5, warmup_calls=1)),
        (0.1, Block(calls=5, warmup_calls=1)),
        (0.1001, Block(calls=3, warmup_calls=1)),
        (0.5, Block(calls=3, warmup_calls=1)),
        (0.5001, Block(calls=1, warmup_calls=1)),
        (60.0, Block(calls=1, warmup_calls=1)),
    ],
)
def test_a_block_fills_its_time_with_a_limited_number_of_calls(
    typical_seconds: float, expected: Block
) -> None:
    assert timing.size_block(typical_seconds, block_seconds=0.05) == expected


def test_a_duration_includes_the_call_and_the_wait_for_its_end(clock: FakeClock) -> None:
    waits = iter([9.0, 0.25, 0.5, 0.125])
    timed = timing.time_block(
        lambda _: clock.advance(1.0),
        ["input"],
        lambda: clock.advance(next(waits)),
        Block(calls=3, warmup_calls=1),
    )
    assert timed.seconds == (1.25, 1.5, 1.125)
    assert (timed.warmup_seconds, timed.streamed_seconds) == ((10.0,), None)


def test_processor_seconds_exclude_the_warm_up_calls(clock: FakeClock) -> None:
    spent = iter([100.0, 100.0, 1.0, 2.0, 4.0])
    timed = timing.time_block(
        lambda _: clock.advance(1.0, cpu_seconds=next(spent)),
        ["input"],
        no_synchronize,
        Block(calls=3, warmup_calls=2),
    )
    assert timed.cpu_seconds == 7.0


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, "abcabc"), (1, "bcabca"), (2, "cabcab"), (3, "abcabc"), (7, "bcabca")],
)
def test_inputs_rotate_from_the_offset_on(offset: int, expected: str) -> None:
    called: list[str] = []
    timing.time_block(
        called.append, "abc", no_synchronize, Block(calls=4, warmup_calls=2), offset=offset
    )
    assert "".join(called) == expected


def test_a_streaming_device_repeats_the_block_without_waiting_in_between(
    clock: FakeClock,
) -> None:
    happened: list[str] = []

    def wait() -> None:
        happened.append("wait")
        clock.advance(1.5)

    def call(_: object) -> None:
        happened.append("call")
        clock.advance(0.5)

    timed = timing.time_block(call, ["input"], wait, Block(calls=3, warmup_calls=1), streams=True)
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

    timed = timing.time_block(
        call,
        ["input"],
        lambda: clock.advance(waiting),
        Block(calls=2, warmup_calls=1),
        streams=True,
    )
    assert (timed.streamed_seconds is not None) is streams
    assert len(calls) == (5 if streams else 3)


def test_garbage_collection_is_disabled_during_the_calls() -> None:
    disabled: list[bool] = []
    timing.time_block(
        lambda _: disabled.append(not gc.isenabled()),
        ["input"],
        no_synchronize,
        Block(calls=2, warmup_calls=1),
    )
    assert disabled == [True] * 3
    assert gc.isenabled()


@pytest.mark.parametrize(
    "block", [Block(calls=1, warmup_calls=0), Block(calls=0, warmup_calls=1)], ids=["kept", "lead"]
)
def test_garbage_collection_is_enabled_again_after_a_call_that_raises(block: Block) -> None:
    def call(_: object) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        timing.time_block(call, ["input"], no_synchronize, block)
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
    timing.time_block(happened.append, ["call"], no_synchronize, Block(calls=1, warmup_calls=0))
    assert happened == ["collected", "call"]


def test_a_steady_workflow_warms_up_for_the_minimum(clock: FakeClock) -> None:
    found = timing.warm_up(no_op, ["input"], lambda: clock.advance(0.125), 5.0)
    assert (found.calls, found.calls_until_steady, found.steady) == (40, 0, True)
    assert found.typical_seconds == pytest.approx(0.125)


def test_a_warm_up_continues_past_a_late_step(clock: FakeClock) -> None:
    calls = iter(range(1, 10_000))
    found = timing.warm_up(
        no_op, ["input"], lambda: clock.advance(0.010 if next(calls) < 100 else 0.0075), 1.2
    )
    assert found.steady
    assert found.typical_seconds == pytest.approx(0.0075)
    assert 95 <= found.calls_until_steady <= 105


def test_the_warm_up_of_long_calls_has_a_lower_limit(
    clock: FakeClock,
) -> None:
    turns = itertools.cycle([0.16, 0.24])
    found = timing.warm_up(no_op, ["input"], lambda: clock.advance(next(turns)), 0.5)
    assert not found.steady
    assert found.calls == 10


def test_first_calls_that_compile_do_not_use_up_the_warm_up(clock: FakeClock) -> None:
    calls = itertools.count()
    found = timing.warm_up(
        no_op, ["input"], lambda: clock.advance(30.0 if next(calls) < 3 else 0.01), 0.2
    )
    assert found.steady
    assert found.calls > 50
    assert found.typical_seconds == pytest.approx(0.01)


def test_steadiness_is_decided_from_a_few_very_long_calls(clock: FakeClock) -> None:
    settled = timing.warm_up(no_op, ["input"], lambda: clock.advance(1.0), 0.2)
    assert (settled.calls, settled.steady) == (5, True)
    times = itertools.count(10, -1)
    falling = timing.warm_up(no_op, ["input"], lambda: clock.advance(float(next(times))), 0.2)
    assert not falling.steady


def test_calls_that_never_settle_are_reported_as_unsteady(clock: FakeClock) -> None:
    calls = iter(range(1, 100_000))
    found = timing.warm_up(no_op, ["input"], lambda: clock.advance(0.0001 * next(calls)), 0.5)
    assert not found.steady


def test_the_warm_up_uses_all_inputs(clock: FakeClock) -> None:
    called: list[str] = []
    timing.warm_up(called.append, "abc", lambda: clock.advance(0.1), 0.4)
    assert "".join(called).startswith("abcab")


def test_sustained_calls_fill_their_time(clock: FakeClock) -> None:
    calls, seconds = timing.sustain(no_op, "ab", lambda: clock.advance(0.3), 1.0)
    assert calls == 4
    assert seconds == pytest.approx(1.2)


def test_a_model_that_replaces_the_clock_does_not_change_the_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("perf_counter", "perf_counter_ns", "process_time", "time"):
        monkeypatch.setattr(time, name, lambda: 0)
    found = timing.time_block(
        lambda _: sum(range(10_000)), ["input"], no_synchronize, Block(calls=5, warmup_calls=1)
    )
    assert min(found.seconds) > 0
