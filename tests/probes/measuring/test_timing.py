"""How long a visit is, what it calls with, and what it counts."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator

import pytest
from fake_clock import StandingClock, do_nothing, no_wait

from probes.measuring import timing
from probes.measuring.timing import Block


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StandingClock:
    clock = StandingClock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Whatever a test does to the collector ends with it."""
    yield
    gc.enable()


@pytest.mark.parametrize(
    ("typical_seconds", "expected"),
    [
        (1e-6, Block(calls=200, lead_calls=2)),
        (0.00099, Block(calls=51, lead_calls=2)),
        (0.001, Block(calls=50, lead_calls=1)),
        (0.003, Block(calls=17, lead_calls=1)),
        (0.01, Block(calls=5, lead_calls=1)),
        (0.1, Block(calls=5, lead_calls=1)),
        (0.1001, Block(calls=3, lead_calls=1)),
        (0.5, Block(calls=3, lead_calls=1)),
        (0.5001, Block(calls=1, lead_calls=1)),
        (60.0, Block(calls=1, lead_calls=1)),
    ],
)
def test_a_visit_fills_its_time_with_neither_too_few_calls_nor_too_many(
    typical_seconds: float, expected: Block
) -> None:
    assert timing.size_block(typical_seconds, block_seconds=0.05) == expected


def test_a_time_is_that_of_the_call_and_of_the_wait_for_its_end(clock: StandingClock) -> None:
    waits = iter([9.0, 0.25, 0.5, 0.125])
    timed = timing.time_block(
        lambda _: clock.pass_by(1.0),
        ["input"],
        lambda: clock.pass_by(next(waits)),
        Block(calls=3, lead_calls=1),
    )
    assert timed.seconds == [1.25, 1.5, 1.125]


def test_processor_seconds_are_those_of_the_kept_calls(clock: StandingClock) -> None:
    spent = iter([100.0, 100.0, 1.0, 2.0, 4.0])
    timed = timing.time_block(
        lambda _: clock.pass_by(1.0, cpu_seconds=next(spent)),
        ["input"],
        no_wait,
        Block(calls=3, lead_calls=2),
    )
    assert timed.cpu_seconds == 7.0


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, "abcabc"), (1, "bcabca"), (2, "cabcab"), (3, "abcabc"), (7, "bcabca")],
)
def test_inputs_rotate_and_each_visit_begins_with_the_next(offset: int, expected: str) -> None:
    called: list[str] = []
    timing.time_block(called.append, "abc", no_wait, Block(calls=4, lead_calls=2), offset=offset)
    assert "".join(called) == expected


def test_the_times_of_calls_that_do_not_count_are_kept_beside_the_others(
    clock: StandingClock,
) -> None:
    waits = iter([9.0, 0.25, 0.5])
    timed = timing.time_block(
        do_nothing, ["input"], lambda: clock.pass_by(next(waits)), Block(calls=2, lead_calls=1)
    )
    assert (timed.lead_seconds, timed.seconds, timed.streamed_seconds) == ([9.0], [0.25, 0.5], None)


def test_where_the_device_streams_the_block_is_run_again_without_waiting_in_between(
    clock: StandingClock,
) -> None:
    happened: list[str] = []

    def wait() -> None:
        happened.append("wait")
        clock.pass_by(1.5)

    def call(_: object) -> None:
        happened.append("call")
        clock.pass_by(0.5)

    timed = timing.time_block(call, ["input"], wait, Block(calls=3, lead_calls=1), streams=True)
    assert happened == ["call", "wait"] * 4 + ["call"] * 3 + ["wait"]
    assert timed.seconds == [2.0] * 3
    assert timed.streamed_seconds == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("working", "waiting", "streams"), [(0.5, 0.001, False), (0.05, 0.001, True), (0.5, 0.1, True)]
)
def test_a_long_call_that_has_waited_itself_is_not_run_again_to_stream(
    clock: StandingClock, working: float, waiting: float, *, streams: bool
) -> None:
    calls: list[float] = []

    def call(_: object) -> None:
        calls.append(working)
        clock.pass_by(working)

    timed = timing.time_block(
        call,
        ["input"],
        lambda: clock.pass_by(waiting),
        Block(calls=2, lead_calls=1),
        streams=True,
    )
    assert (timed.streamed_seconds is not None) is streams
    assert len(calls) == (5 if streams else 3)


def test_every_call_is_waited_for_before_the_next() -> None:
    happened: list[str] = []
    timing.time_block(
        happened.append, ["call"], lambda: happened.append("wait"), Block(calls=2, lead_calls=1)
    )
    assert happened == ["call", "wait"] * 3


def test_the_collector_rests_while_calls_are_made_and_works_afterwards() -> None:
    resting: list[bool] = []
    timing.time_block(
        lambda _: resting.append(not gc.isenabled()),
        ["input"],
        no_wait,
        Block(calls=2, lead_calls=1),
    )
    assert resting == [True] * 3
    assert gc.isenabled()


@pytest.mark.parametrize(
    "block", [Block(calls=1, lead_calls=0), Block(calls=0, lead_calls=1)], ids=["kept", "lead"]
)
def test_the_collector_works_again_after_a_call_that_raises(block: Block) -> None:
    def call(_: object) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        timing.time_block(call, ["input"], no_wait, block)
    assert gc.isenabled()


def test_garbage_of_earlier_calls_is_collected_before_the_first() -> None:
    class Loop:
        def __init__(self, gone: Callable[[], None]) -> None:
            self.itself = self
            self.gone = gone

        def __del__(self) -> None:
            self.gone()

    happened: list[str] = []
    Loop(lambda: happened.append("collected"))
    timing.time_block(happened.append, ["call"], no_wait, Block(calls=1, lead_calls=0))
    assert happened == ["collected", "call"]


def test_a_steady_workflow_warms_up_for_the_floor_and_no_longer(clock: StandingClock) -> None:
    warmth = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(0.125), 5.0)
    assert (warmth.calls, warmth.calls_until_steady, warmth.steady) == (40, 0, True)
    assert warmth.typical_seconds == pytest.approx(0.125)


def test_warming_up_goes_on_until_a_late_step_is_behind(clock: StandingClock) -> None:
    calls = iter(range(1, 10_000))
    warmth = timing.warm_up(
        do_nothing, ["input"], lambda: clock.pass_by(0.010 if next(calls) < 100 else 0.0075), 1.2
    )
    assert warmth.steady
    assert warmth.typical_seconds == pytest.approx(0.0075)
    assert 95 <= warmth.calls_until_steady <= 105


def test_a_long_call_that_does_not_settle_is_not_warmed_up_as_long_as_a_short_one(
    clock: StandingClock,
) -> None:
    turns = itertools.cycle([0.16, 0.24])
    warmth = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(next(turns)), 0.5)
    assert not warmth.steady
    assert warmth.calls == 10


def test_a_first_call_that_builds_does_not_use_up_the_time(clock: StandingClock) -> None:
    calls = itertools.count()
    warmth = timing.warm_up(
        do_nothing, ["input"], lambda: clock.pass_by(30.0 if next(calls) < 3 else 0.01), 0.2
    )
    assert warmth.steady
    assert warmth.calls > 50
    assert warmth.typical_seconds == pytest.approx(0.01)


def test_calls_so_long_that_there_is_time_for_few_are_judged_by_those(clock: StandingClock) -> None:
    settled = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(1.0), 0.2)
    assert (settled.calls, settled.steady) == (5, True)
    times = itertools.count(10, -1)
    falling = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(float(next(times))), 0.2)
    assert not falling.steady


def test_what_never_settles_is_said_to_be_unsteady_when_time_is_up(clock: StandingClock) -> None:
    calls = iter(range(1, 100_000))
    warmth = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(0.0001 * next(calls)), 0.5)
    assert not warmth.steady


def test_warming_up_goes_through_all_inputs(clock: StandingClock) -> None:
    called: list[str] = []
    timing.warm_up(called.append, "abc", lambda: clock.pass_by(0.1), 0.4)
    assert "".join(called).startswith("abcab")


def test_sustained_calls_fill_their_time_and_are_counted(clock: StandingClock) -> None:
    calls, seconds = timing.sustain(do_nothing, "ab", lambda: clock.pass_by(0.3), 1.0)
    assert calls == 4
    assert seconds == pytest.approx(1.2)
