"""Time one function with p3-advisor, torch.utils.benchmark and pyperf.

    python tests/studies/other_tools.py    # 10 rounds: about 6 minutes; needs pyperf
    python tests/studies/other_tools.py --rounds 2 --seconds 0.3

In each round every tool gets a new process of one thread and the same time. The order of the tools
rotates. Target on an idle machine: the medians agree within 2 %.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import benchmark_report

WARMUP_CALLS = 50


def make_function() -> Callable[[], object]:
    """Return the function that all tools time: a small network on one batch."""
    import torch  # noqa: PLC0415 - only the processes that time need it

    torch.set_num_threads(1)
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


def p3_advisor(function: Callable[[], object], seconds: float) -> float:
    """Return the median of the blocks' medians, timed as the project's worker does."""
    from probes.measuring import timing  # noqa: PLC0415 - as above

    def call(_: object) -> object:
        return function()

    def do_not_wait() -> None:
        """Replace the synchronisation of a device; the function runs on the processor."""

    warmed_up = timing.warm_up(call, [None], do_not_wait, 0.2)
    block = timing.size_block(warmed_up.typical_seconds, 0.05)
    medians, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        medians.append(
            statistics.median(timing.time_block(call, [None], do_not_wait, block).seconds)
        )
    return statistics.median(medians)


def torch_utils_benchmark(function: Callable[[], object], seconds: float) -> float:
    """Return the median of `blocked_autorange`."""
    from torch.utils.benchmark import Timer  # noqa: PLC0415 - as above

    timer = Timer("function()", globals={"function": function}, num_threads=1)
    return float(timer.blocked_autorange(min_run_time=seconds).median)


def pyperf(function: Callable[[], object], seconds: float) -> float:
    """Return the median of the values of one worker process, of about 0.1 s each."""
    import pyperf as tool  # noqa: PLC0415 - as above

    start = time.perf_counter()
    for _ in range(WARMUP_CALLS):
        function()
    loops = max(round(0.1 * WARMUP_CALLS / (time.perf_counter() - start)), 1)
    values = max(round(seconds / 0.1), 3)
    options = ["--worker", "--quiet", f"--loops={loops}", f"--values={values}", "--warmups=1"]
    sys.argv = [sys.argv[0], *options]
    result: Any = tool.Runner().bench_func("function", function)
    return float(result.median())


TOOLS = {
    "p3-advisor": p3_advisor,
    "torch.utils.benchmark": torch_utils_benchmark,
    "pyperf": pyperf,
}


def time_with(tool: str, seconds: float) -> float:
    return TOOLS[tool](make_function(), seconds)


def main() -> None:
    """Run all tools in each round and publish the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=pathlib.Path, default=benchmark_report.RESULTS)
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    medians: dict[str, list[float]] = {tool: [] for tool in TOOLS}
    names, context = list(TOOLS), multiprocessing.get_context("spawn")
    for number in range(options.rounds):
        for position in range(len(names)):
            tool = names[(position + number) % len(names)]
            with context.Pool(1) as process:
                medians[tool].append(process.apply(time_with, (tool, options.seconds)))
    rows = []
    for tool, values in medians.items():
        ratios = [our / value for our, value in zip(medians["p3-advisor"], values, strict=True)]
        rows.append(
            [
                tool,
                f"{statistics.median(values) * 1e6:.1f} us",
                f"{statistics.median(ratios):.3f}",
                f"{max(values) / min(values) - 1:.1%}",
            ]
        )
    benchmark_report.publish(
        "other-tools",
        f"One function timed by three tools, {options.rounds} rounds of {options.seconds:g} s",
        ["tool", "median", "p3-advisor's median over it", "spread"],
        rows,
        {"medians": medians, "rounds": options.rounds, "seconds": options.seconds},
        options.out,
    )


if __name__ == "__main__":
    main()
