"""Warm up, choose the size of visits, and time them. It takes callables and imports no stack.

All stacks are timed with the same clock: `perf_counter_ns` on the host, around the call and the
wait for its end. The clocks are bound when this module is imported, which is before a model is: one
that replaces the functions of `time` does not change what is measured.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter, perf_counter_ns
from typing import Any

from probes.events import Visited, WarmedUp
from probes.host import Host
from probes.shape import Shape

NANOSECONDS = 1e-9
#: Limits of the calls in one visit. Fewer suffice for calls above the two durations.
MIN_CALLS = 5
MAX_CALLS = 200
LONG_CALL_SECONDS = 0.1
LONG_CALL_COUNT = 3
VERY_LONG_CALL_SECONDS = 0.5
#: How many times the calls of a visit it makes at most, where the host slows some.
MOST_TRIES = 2
#: A visit that takes longer, because other work slows its calls, ends after the fewest calls.
LONGEST_VISIT_SECONDS = 2.0
SHORT_CALL_SECONDS = 0.001
#: A warm-up lasts at most this many times its minimum. It is checked again each time it has grown
#: by this share.
MAX_WARMUP, RECHECK_SHARE = 10.0, 0.25
#: The limit for long calls, which consist of many steps and were called several times by the
#: check of the outputs.
MAX_WARMUP_OF_LONG_CALLS = 4.0
#: How many times the typical call a single call counts at most during the warm-up.
MAX_CALL_WEIGHT = 5.0
#: If a long call returns only after this share of its duration, the host cannot enqueue ahead, and
#: the throughput follows from the duration alone.
BLOCKING_SHARE = 0.95
#: Share of the calls of a visit that are repeated without waiting between them.
STREAMED_SHARE = 0.3
#: Calls in a batch. A long call is a batch of its own, because sixty of them would take too long.
BATCH_CALLS = 5
OWN_BATCH_SECONDS = 0.01
#: The minimum of batches for a decision, for a decision by MSER, and after the cut.
MIN_BATCHES, MIN_MSER_BATCHES, MIN_BATCHES_LEFT = 5, 12, 4
#: Largest spread of the second half of the batches if they are fewer than MSER needs.
MAX_SPREAD = 0.1


@dataclasses.dataclass(frozen=True)
class VisitSize:
    """The size of a visit: the calls that count, and the warm-up calls before them."""

    calls: int
    warmup_calls: int
    #: Calls for the first token after them; 0 for tasks other than generated text.
    first_token_calls: int = 0


@dataclasses.dataclass(frozen=True)
class Timer:
    """A callable whose calls are timed, and what they need."""

    call: Callable[[Any], object]
    #: The program's inputs, one entry for each input set, which the calls use in rotation.
    device_inputs: Sequence[Any]
    #: Waits for the end of the work of a call.
    synchronise: Callable[[], None]

    def time(self, value: Any) -> float:
        """Return the seconds of one call, to the end of its work."""
        start = perf_counter_ns()
        self.call(value)
        self.synchronise()
        return (perf_counter_ns() - start) * NANOSECONDS


def torch_on_gpu() -> Any:
    """Return the module `torch` if the stack has loaded it and it uses a GPU, else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None


def synchronise() -> None:
    """Wait for all streams of PyTorch's GPU, so that work on a side stream is timed too.

    Engines that run in other processes have waited.
    """
    if torch := torch_on_gpu():
        torch.cuda.synchronize()


def size_visit(typical_seconds: float, visit_seconds: float) -> VisitSize:
    """Return how many calls a visit has.

    Warm-up calls restore caches and clocks after another visit; short calls need two.
    """
    if typical_seconds > VERY_LONG_CALL_SECONDS:
        return VisitSize(calls=1, warmup_calls=1)
    if typical_seconds > LONG_CALL_SECONDS:
        return VisitSize(calls=LONG_CALL_COUNT, warmup_calls=1)
    calls = min(max(math.ceil(visit_seconds / typical_seconds), MIN_CALLS), MAX_CALLS)
    return VisitSize(calls=calls, warmup_calls=2 if typical_seconds < SHORT_CALL_SECONDS else 1)


def time_visit(
    timer: Timer,
    size: VisitSize,
    *,
    shape: Shape,
    round_number: int,
    streams: bool = False,
    host: Host | None = None,
) -> Visited:
    """Call `size.warmup_calls + size.calls` times, or fewer, and return the durations.

    The inputs are used in rotation; each round begins with the next. With a `host`, its speed is
    checked between the calls. Calls next to a slow check do not count: others replace them, from
    another processor. If few calls are left, all count.

    If the device `streams`, which means that it queues calls, they are repeated without waiting
    between the calls; the throughput is that of the repetition. Long calls that block the host are
    not repeated.
    """
    first = round_number % len(timer.device_inputs)
    inputs = itertools.islice(itertools.cycle(timer.device_inputs), first, None)
    clock, streamed_seconds = perf_counter_ns, None
    with _garbage_collection_paused():
        began = clock()
        if host is not None:
            host.settle()
        leads = [timer.time(next(inputs)) for _ in range(size.warmup_calls)]
        durations, enqueues, slowdowns = _time_counted_calls(timer, inputs, size, host, began)
        whole = statistics.median(durations)
        is_blocking = (
            whole * NANOSECONDS > LONG_CALL_SECONDS
            and statistics.median(enqueues) > BLOCKING_SHARE * whole
        )
        if streams and not is_blocking:
            calls = min(len(durations), size.calls)
            count = max(math.ceil(calls * STREAMED_SHARE), min(calls, MIN_CALLS))
            start = clock()
            for _ in range(count):
                timer.call(next(inputs))
            timer.synchronise()
            streamed_seconds = (clock() - start) * NANOSECONDS / count
    limit = host.most_slowdown if host is not None else math.inf
    fast = [number for number, slowdown in enumerate(slowdowns) if slowdown <= limit]
    if len(fast) >= min(MIN_CALLS, size.calls):
        durations = [durations[number] for number in fast]
        slowdowns = [slowdowns[number] for number in fast]
    return Visited(
        shape,
        round_number,
        seconds=tuple(count * NANOSECONDS for count in durations),
        warmup_seconds=tuple(leads),
        streamed_seconds=streamed_seconds,
        host_slowdown=statistics.median(slowdowns) if host is not None else None,
    )


def _time_counted_calls(
    timer: Timer, inputs: Iterator[Any], size: VisitSize, host: Host | None, began: int
) -> tuple[list[int], list[int], list[float]]:
    """Time the calls after the warm-up: whole, until each returned, and what a slow host cost each.

    The latter is how many times as long the call took: only its time until it returned needs the
    host. A fast processor is searched for as long as the calls take in all: at times there is none.
    """
    clock, call, synchronise = perf_counter_ns, timer.call, timer.synchronise
    durations: list[int] = []
    enqueues: list[int] = []
    slowdowns: list[float] = []
    undisturbed = calling = searching = 0
    measure_slowdown = host.slowdown if host is not None else lambda: 1.0
    limit = host.most_slowdown if host is not None else math.inf
    slowdown = measure_slowdown()
    for _ in range(size.calls * (MOST_TRIES if size.calls >= MIN_CALLS else 1)):
        value = next(inputs)
        start = clock()
        call(value)
        returned = clock()
        synchronise()
        durations.append(clock() - start)
        enqueues.append(returned - start)
        calling += durations[-1]
        before, slowdown = slowdown, measure_slowdown()
        on_host = enqueues[-1] / durations[-1] if durations[-1] else 1.0
        slowdowns.append(1.0 + (max(before, slowdown) - 1.0) * on_host)
        undisturbed += slowdowns[-1] <= limit
        is_overdue = (clock() - began) * NANOSECONDS > LONGEST_VISIT_SECONDS
        if undisturbed == size.calls or (is_overdue and len(durations) >= MIN_CALLS):
            break
        if host is not None and min(slowdown, slowdowns[-1]) > limit and searching <= calling:
            start = clock()
            host.settle()
            # The caches of another processor are cold.
            timer.time(next(inputs))
            slowdown = host.slowdown()
            searching += clock() - start
    return durations, enqueues, slowdowns


@contextlib.contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def warm_up(timer: Timer, min_seconds: float, shape: Shape) -> WarmedUp:
    """Call until the durations are steady, for at least `min_seconds`.

    The limit is ten times that, four times for long calls. A call that takes many times as long as
    the typical one compiles or records something; its weight is limited, so that a single one does
    not use up the time.
    """
    seconds: list[float] = []
    inputs = itertools.cycle(timer.device_inputs)
    next_check = perf_counter() + min_seconds
    while True:
        seconds.append(timer.time(next(inputs)))
        now = perf_counter()
        if now < next_check or len(seconds) < MIN_CALLS:
            continue
        typical = statistics.median(seconds[len(seconds) // 2 :])
        limit = MAX_WARMUP_OF_LONG_CALLS if typical > LONG_CALL_SECONDS else MAX_WARMUP
        weighted = sum(min(duration, MAX_CALL_WEIGHT * typical) for duration in seconds)
        if weighted < min_seconds:
            next_check = now + min_seconds - weighted
            continue
        cut, recent = find_cut(seconds), seconds
        if not cut.steady and weighted >= 2 * min_seconds:
            # Workers that warmed up beside this one may have slowed its first calls.
            recent = seconds[len(seconds) // 2 :]
            cut = find_cut(recent)
        if (cut.steady and cut.enough) or weighted >= limit * min_seconds:
            typical = statistics.median(recent[cut.calls :])
            return WarmedUp(shape, typical, cut.steady)
        next_check = now + RECHECK_SHARE * weighted


def time_calls(timer: Timer, count: int) -> tuple[float, ...]:
    inputs = itertools.cycle(timer.device_inputs)
    with _garbage_collection_paused():
        return tuple(timer.time(next(inputs)) for _ in range(count))


def sustain(timer: Timer, seconds: float) -> tuple[int, float]:
    inputs = itertools.cycle(timer.device_inputs)
    count = 0
    start = perf_counter()
    while perf_counter() - start < seconds:
        timer.time(next(inputs))
        count += 1
    return count, perf_counter() - start


@dataclasses.dataclass(frozen=True)
class Cut:
    """Where the steady part of a series begins."""

    #: The number of calls before it.
    calls: int
    #: Whether there is a steady part, and whether the series is long enough to be certain.
    steady: bool
    enough: bool


def find_cut(seconds: Sequence[float]) -> Cut:
    """Return where `seconds`, the durations of successive calls, become steady, by MSER-5.

    The beginning is cut off whose removal minimises the variance of the mean of the rest. The
    method is that of White, "An effective truncation heuristic for bias reduction in simulation
    output" (1997). It works on the medians of batches of five calls, which are insensitive to
    single outliers. A cut beyond the middle means that the steady state has not been reached.
    """
    middle = len(seconds) // 2
    size = BATCH_CALLS if statistics.median(seconds[middle:]) < OWN_BATCH_SECONDS else 1
    batches = [
        statistics.median(seconds[start : start + size])
        for start in range(0, len(seconds) - size + 1, size)
    ]
    if len(batches) < MIN_BATCHES:
        return Cut(middle, steady=False, enough=False)
    half = len(batches) // 2
    if len(batches) < MIN_MSER_BATCHES:
        rest = batches[half:]
        return Cut(half * size, steady=max(rest) <= min(rest) * (1 + MAX_SPREAD), enough=False)
    variances = variances_of_means(batches)[: len(batches) - MIN_BATCHES_LEFT + 1]
    best = variances.index(min(variances))
    return Cut(best * size, steady=best <= half, enough=True)


def variances_of_means(values: Sequence[float]) -> list[float]:
    """Return, for each cut, the variance of the rest over its length.

    That is the squared standard error of the mean of the rest. The computation is one pass from the
    end, because short calls make thousands of batches.
    """
    variances: list[float] = []
    mean = squares = 0.0
    for count, value in enumerate(reversed(values), start=1):
        deviation = value - mean
        mean += deviation / count
        squares += deviation * (value - mean)
        variances.append(squares / count / count)
    return variances[::-1]
