"""How long a visit is, what it calls with, and what it counts."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from probes import timing
from probes.timing import Block

NANOSECONDS_PER_SECOND = 1_000_000_000


class Clock:
    """Stands for the module `time`: it goes on only when told."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        self.cpu_nanoseconds = 0
        self.kept_waiting = 0.0

    def pass_by(self, seconds: float, *, cpu_seconds: float = 0.0) -> None:
        self.nanoseconds += round(seconds * NANOSECONDS_PER_SECOND)
        self.cpu_nanoseconds += round(cpu_seconds * NANOSECONDS_PER_SECOND)

    def sleep(self, seconds: float) -> None:
        self.pass_by(seconds)

    def perf_counter_ns(self) -> int:
        return self.nanoseconds

    def perf_counter(self) -> float:
        return self.nanoseconds / NANOSECONDS_PER_SECOND

    def process_time(self) -> float:
        return self.cpu_nanoseconds / NANOSECONDS_PER_SECOND


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    monkeypatch.setattr(timing, "seconds_kept_waiting", lambda: clock.kept_waiting)
    return clock


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Whatever a test does to the collector ends with it."""
    yield
    gc.enable()


def no_wait() -> None:
    """Stand for a device that has always finished."""


def do_nothing(fed: object) -> None:
    """Stand for a program."""


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
def test_a_visit_fills_its_time_with_neither_too_few_calls_nor_too_many(typical_seconds: float, expected: Block) -> None:
    assert timing.size_block(typical_seconds, block_seconds=0.05) == expected


def test_a_time_is_that_of_the_call_and_of_the_wait_for_its_end(clock: Clock) -> None:
    waits = iter([9.0, 0.25, 0.5, 0.125])
    timed = timing.time_block(lambda _: clock.pass_by(1.0), ["input"], lambda: clock.pass_by(next(waits)), Block(calls=3, lead_calls=1))
    assert timed.seconds == [1.25, 1.5, 1.125]


def test_processor_seconds_are_those_of_the_kept_calls(clock: Clock) -> None:
    spent = iter([100.0, 100.0, 1.0, 2.0, 4.0])
    timed = timing.time_block(lambda _: clock.pass_by(1.0, cpu_seconds=next(spent)), ["input"], no_wait, Block(calls=3, lead_calls=2))
    assert timed.cpu_seconds == 7.0


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, "abcabc"), (1, "bcabca"), (2, "cabcab"), (3, "abcabc"), (7, "bcabca")],
)
def test_inputs_rotate_and_each_visit_begins_with_the_next(offset: int, expected: str) -> None:
    called: list[str] = []
    timing.time_block(called.append, "abc", no_wait, Block(calls=4, lead_calls=2), offset=offset)
    assert "".join(called) == expected


def test_the_times_of_calls_that_do_not_count_are_kept_beside_the_others(clock: Clock) -> None:
    waits = iter([9.0, 0.25, 0.5])
    timed = timing.time_block(do_nothing, ["input"], lambda: clock.pass_by(next(waits)), Block(calls=2, lead_calls=1))
    assert (timed.lead_seconds, timed.seconds, timed.streamed_seconds) == ([9.0], [0.25, 0.5], None)


def test_where_the_device_streams_the_block_is_run_again_without_waiting_in_between(clock: Clock) -> None:
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


@pytest.mark.parametrize(("working", "waiting", "streams"), [(0.5, 0.001, False), (0.05, 0.001, True), (0.5, 0.1, True)])
def test_a_long_call_that_has_waited_itself_is_not_run_again_to_stream(
    clock: Clock, working: float, waiting: float, *, streams: bool
) -> None:
    calls: list[float] = []

    def call(_: object) -> None:
        calls.append(working)
        clock.pass_by(working)

    timed = timing.time_block(call, ["input"], lambda: clock.pass_by(waiting), Block(calls=2, lead_calls=1), streams=True)
    assert (timed.streamed_seconds is not None) is streams
    assert len(calls) == (5 if streams else 3)


def test_every_call_is_waited_for_before_the_next() -> None:
    happened: list[str] = []
    timing.time_block(happened.append, ["call"], lambda: happened.append("wait"), Block(calls=2, lead_calls=1))
    assert happened == ["call", "wait"] * 3


def test_the_collector_rests_while_calls_are_made_and_works_afterwards() -> None:
    resting: list[bool] = []
    timing.time_block(lambda _: resting.append(not gc.isenabled()), ["input"], no_wait, Block(calls=2, lead_calls=1))
    assert resting == [True] * 3
    assert gc.isenabled()


@pytest.mark.parametrize("block", [Block(calls=1, lead_calls=0), Block(calls=0, lead_calls=1)], ids=["kept", "lead"])
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


def test_a_steady_workflow_warms_up_for_the_floor_and_no_longer(clock: Clock) -> None:
    warmth = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(0.125), 5.0)
    assert (warmth.calls, warmth.calls_until_steady, warmth.steady) == (40, 0, True)
    assert warmth.typical_seconds == pytest.approx(0.125)


def test_warming_up_goes_on_until_a_late_step_is_behind(clock: Clock) -> None:
    calls = iter(range(1, 10_000))
    warmth = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(0.010 if next(calls) < 100 else 0.0075), 1.2)
    assert warmth.steady
    assert warmth.typical_seconds == pytest.approx(0.0075)
    assert 95 <= warmth.calls_until_steady <= 105


def test_a_long_call_that_does_not_settle_is_not_warmed_up_as_long_as_a_short_one(clock: Clock) -> None:
    turns = itertools.cycle([0.16, 0.24])
    warmth = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(next(turns)), 0.5)
    assert not warmth.steady
    assert warmth.calls == 10


def test_a_first_call_that_builds_does_not_use_up_the_time(clock: Clock) -> None:
    calls = itertools.count()
    warmth = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(30.0 if next(calls) < 3 else 0.01), 0.2)
    assert warmth.steady
    assert warmth.calls > 50
    assert warmth.typical_seconds == pytest.approx(0.01)


def test_calls_so_long_that_there_is_time_for_few_are_judged_by_those(clock: Clock) -> None:
    settled = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(1.0), 0.2)
    assert (settled.calls, settled.steady) == (5, True)
    times = itertools.count(10, -1)
    falling = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(float(next(times))), 0.2)
    assert not falling.steady


def test_what_never_settles_is_said_to_be_unsteady_when_time_is_up(clock: Clock) -> None:
    calls = iter(range(1, 100_000))
    warmth = timing.warm_up(do_nothing, ["input"], lambda: clock.pass_by(0.0001 * next(calls)), 0.5)
    assert not warmth.steady


def test_warming_up_goes_through_all_inputs(clock: Clock) -> None:
    called: list[str] = []
    timing.warm_up(called.append, "abc", lambda: clock.pass_by(0.1), 0.4)
    assert "".join(called).startswith("abcab")


def test_work_that_goes_on_after_the_workflow_says_it_is_done_is_seen(clock: Clock) -> None:
    working: list[float] = []

    def start(_: str) -> None:
        working.append(0.5)
        clock.pass_by(0.5)

    def wait_for_device() -> None:
        clock.pass_by(sum(working))
        working.clear()

    assert timing.late_device_share(start, "input", no_wait, wait_for_device) == pytest.approx(0.5)
    assert timing.late_device_share(start, "input", wait_for_device, wait_for_device) == 0.0


def test_an_output_that_takes_longer_to_read_than_later_was_not_done(clock: Clock) -> None:
    done: list[float] = []

    def start(_: str) -> None:
        clock.pass_by(0.1)
        done.append(clock.perf_counter() + 0.3)

    def read(_: object) -> None:
        clock.pass_by(max(done[-1] - clock.perf_counter(), 0.0) + 0.05)

    # 0.35 s at once, and reading alone takes 0.05, of which twice may be chance.
    assert timing.late_output_share(start, read, "input", no_wait) == pytest.approx(0.25 / 0.35)


def test_an_output_that_takes_long_to_read_whenever_it_is_read_was_done(clock: Clock) -> None:
    late = timing.late_output_share(lambda _: clock.pass_by(0.1), lambda _: clock.pass_by(0.4), "input", no_wait)
    assert late == pytest.approx(0.0)


@pytest.mark.parametrize(
    "seconds",
    [
        [2.2, 2.0, 2.1, 1.9, 2.3, 2.15, 2.4, 2.1, 2.2, 2.05],
        [7.6, 3.9],  # every one at once took twice as long as later; measured on 64 processors
    ],
)
def test_reads_that_waver_by_more_than_a_call_takes_are_no_late_work(clock: Clock, seconds: list[float]) -> None:
    at_once_and_later = itertools.cycle(seconds)
    late = timing.late_output_share(lambda _: clock.pass_by(0.09), lambda _: clock.pass_by(next(at_once_and_later)), "input", no_wait)
    assert late == 0.0


def test_what_a_busy_machine_keeps_a_read_waiting_is_no_late_work(clock: Clock) -> None:
    waits = itertools.cycle([0.3, 0.0])

    def read_after_a_wait(_: object) -> None:
        waited = next(waits)
        clock.kept_waiting += waited
        clock.pass_by(0.1 + waited)

    assert timing.late_output_share(lambda _: clock.pass_by(0.09), read_after_a_wait, "input", no_wait) == pytest.approx(0.0)


def test_how_long_a_thread_waits_for_a_processor_is_told() -> None:
    allowed = os.sched_getaffinity(0)
    spin = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"
    processor = min(allowed)
    with subprocess.Popen([sys.executable, "-c", spin, str(processor)], stdout=subprocess.PIPE) as rival:
        assert rival.stdout
        rival.stdout.readline()
        os.sched_setaffinity(0, {processor})
        try:
            before, end = timing.seconds_kept_waiting(), time.perf_counter() + 0.5
            while time.perf_counter() < end:
                pass
            waited = timing.seconds_kept_waiting() - before
        finally:
            os.sched_setaffinity(0, allowed)
            rival.kill()
    assert waited > 0.02, "the rival has half of the processor"


@pytest.mark.parametrize(("seconds", "tries"), [(0.2, 1), (0.05, 5)])
def test_late_work_of_a_long_call_is_looked_for_once(clock: Clock, seconds: float, tries: int) -> None:
    called: list[str] = []

    def call(fed: str) -> None:
        called.append(fed)
        clock.pass_by(seconds)

    assert timing.late_device_share(call, "input", no_wait, no_wait) == 0.0
    assert len(called) == tries


def test_a_machine_that_stalls_once_makes_no_long_call_late(clock: Clock) -> None:
    waits = iter([0.0, 0.0, 0.1, *[0.0] * 20])
    late = timing.late_device_share(lambda _: clock.pass_by(0.6), "input", no_wait, lambda: clock.pass_by(next(waits)))
    assert late == 0.0


def test_sustained_calls_fill_their_time_and_are_counted(clock: Clock) -> None:
    calls, seconds = timing.sustain(do_nothing, "ab", lambda: clock.pass_by(0.3), 1.0)
    assert calls == 4
    assert seconds == pytest.approx(1.2)
