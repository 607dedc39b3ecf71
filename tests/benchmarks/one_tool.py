"""Time one function with one tool: `python one_tool.py TOOL SECONDS THREADS` prints a JSON object.

Tools: `p3-advisor`, `torch.utils.benchmark`, `pyperf`, `optimum-benchmark`. The interpreter must
have the tool. Each is used as documented, for about SECONDS. With SECONDS 0 the tool times an empty
function 100,000 times, which shows the tool's own overhead.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
EMPTY_CALLS = 100_000
WARMUP_CALLS = 50


def make_function(threads: int) -> Callable[[], object]:
    """Return the function that all tools time: a small network on one batch."""
    import torch  # noqa: PLC0415 - not needed for the empty function

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    layers = [
        torch.nn.Linear(256, 512),
        torch.nn.GELU(),
        torch.nn.Linear(512, 512),
        torch.nn.GELU(),
        torch.nn.Linear(512, 256),
    ]
    network, batch = torch.nn.Sequential(*layers).eval(), torch.randn(32, 256)
    torch.inference_mode().__enter__()
    for _ in range(WARMUP_CALLS):
        network(batch)
    return lambda: network(batch)


def p3_advisor(function: Callable[[], object], seconds: float, threads: int) -> float:
    """Return the median of the blocks' medians, timed as the project's worker does."""
    del threads
    sys.path.insert(0, str(ROOT))
    from probes.measuring import timing  # noqa: PLC0415 - as above

    block = timing.size_block(
        timing.warm_up(lambda _: function(), [None], do_not_wait, 0.2).typical_seconds, 0.05
    )
    medians, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        medians.append(
            statistics.median(
                timing.time_block(lambda _: function(), [None], do_not_wait, block).seconds
            )
        )
    return statistics.median(medians)


def torch_utils_benchmark(function: Callable[[], object], seconds: float, threads: int) -> float:
    """Return the median of `blocked_autorange`."""
    from torch.utils.benchmark import Timer  # noqa: PLC0415 - as above

    timer = Timer("function()", globals={"function": function}, num_threads=threads)
    return float(timer.blocked_autorange(min_run_time=seconds).median)


def pyperf(function: Callable[[], object], seconds: float, threads: int) -> float:
    """Return the median of the values of one worker process, of about 0.1 s each."""
    del threads
    import pyperf as tool  # noqa: PLC0415 - as above

    start = time.perf_counter()
    for _ in range(WARMUP_CALLS):
        function()
    loops = max(round(0.1 * WARMUP_CALLS / (time.perf_counter() - start)), 1)
    sys.argv = [
        sys.argv[0],
        "--worker",
        "--quiet",
        f"--loops={loops}",
        f"--values={max(round(seconds / 0.1), 3)}",
        "--warmups=1",
    ]
    result: Any = tool.Runner().bench_func("function", function)
    return float(result.median())


def optimum_benchmark(function: Callable[[], object], seconds: float, threads: int) -> float:
    """Return the median of its latency tracker, used as its inference scenario does."""
    del threads
    from optimum_benchmark.trackers.latency import LatencySessionTracker  # noqa: PLC0415 - as above

    tracker = LatencySessionTracker(device="cpu", backend="pytorch")
    with tracker.session():
        while tracker.elapsed() < seconds or tracker.count() < 10:
            with tracker.track():
                function()
    return float(tracker.get_latency().p50)


def do_not_wait() -> None:
    """Replace the synchronisation of a device; the function runs on the processor."""


TOOLS = {
    "p3-advisor": p3_advisor,
    "torch.utils.benchmark": torch_utils_benchmark,
    "pyperf": pyperf,
    "optimum-benchmark": optimum_benchmark,
}


def measure_overhead(tool: str) -> dict[str, float]:
    """Return the seconds of an empty call as the tool measures it, and by the wall clock."""

    def empty_function(_: object = None) -> None:
        pass

    if tool == "p3-advisor":
        sys.path.insert(0, str(ROOT))
        from probes.measuring import timing  # noqa: PLC0415 - as above

        start = time.perf_counter()
        timed = timing.time_block(empty_function, [None], do_not_wait, timing.Block(EMPTY_CALLS, 0))
        return {
            "inside": statistics.median(timed.seconds),
            "around": (time.perf_counter() - start) / EMPTY_CALLS,
        }
    from optimum_benchmark.trackers.latency import LatencySessionTracker  # noqa: PLC0415 - as above

    tracker = LatencySessionTracker(device="cpu", backend="pytorch")
    start = time.perf_counter()
    with tracker.session():
        while tracker.count() < EMPTY_CALLS:
            with tracker.track():
                empty_function()
    around = (time.perf_counter() - start) / EMPTY_CALLS
    return {"inside": float(tracker.get_latency().p50), "around": around}


def main() -> None:
    tool, seconds, threads = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    if seconds == 0:
        result: dict[str, float] = measure_overhead(tool)
    else:
        result = {"median": TOOLS[tool](make_function(threads), seconds, threads)}
    sys.stdout.write("\n" + json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
