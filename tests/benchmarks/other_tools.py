"""Time one function with p3-advisor, torch.utils.benchmark, pyperf and optimum-benchmark.

    python -m venv .venv-ob
    .venv-ob/bin/pip install torch==2.13.0 transformers==4.57.6 \\
        "datasets<5" "huggingface_hub<1" optimum-benchmark==0.6.0
    # 10 rounds: about 8 minutes
    python tests/benchmarks/other_tools.py --optimum-python .venv-ob/bin/python
    python tests/benchmarks/other_tools.py --optimum-python .venv-ob/bin/python \\
        --rounds 2 --seconds 0.3

In each round every tool gets a new process, the same number of threads and the same time. The order
of the tools rotates. Targets on an idle machine: the medians agree within 2 %, and the repeats of
p3-advisor spread no wider than those of the best other tool. Its overhead is at most 0.15
microseconds inside the timed part of a call and 1 microsecond around it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parent)]

import benchmark_report

SCRIPT = pathlib.Path(__file__).with_name("one_tool.py")
TOOLS = ("p3-advisor", "torch.utils.benchmark", "pyperf", "optimum-benchmark")
OVERHEAD_TOOLS = ("p3-advisor", "optimum-benchmark")


def run_tool(python: str, tool: str, seconds: float, threads: int) -> dict[str, float]:
    """Run one tool in a new process and return its result."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
    }
    command = [python, str(SCRIPT), tool, str(seconds), str(threads)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if process.returncode:
        message = f"{tool} failed: {process.stderr[-2000:]}"
        raise RuntimeError(message)
    result: dict[str, float] = json.loads(process.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    """Run all tools in each round and publish the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--optimum-python",
        default="",
        help="interpreter that has optimum-benchmark; default: skip this tool",
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=benchmark_report.RESULTS)
    options = parser.parse_args()
    pythons = {
        tool: options.optimum_python if tool == "optimum-benchmark" else sys.executable
        for tool in TOOLS
    }
    pythons = {tool: python for tool, python in pythons.items() if python}
    medians: dict[str, list[float]] = {tool: [] for tool in pythons}
    names = list(pythons)
    for number in range(options.rounds):
        for position in range(len(names)):
            tool = names[(position + number) % len(names)]
            medians[tool].append(
                run_tool(pythons[tool], tool, options.seconds, options.threads)["median"]
            )
    overheads = {
        tool: run_tool(pythons[tool], tool, 0.0, options.threads)
        for tool in OVERHEAD_TOOLS
        if tool in pythons
    }
    publish(medians, overheads, options)


def publish(
    medians: dict[str, list[float]],
    overheads: dict[str, dict[str, float]],
    options: argparse.Namespace,
) -> None:
    """Publish a row for each tool."""
    ours = medians["p3-advisor"]
    rows = []
    for tool, values in medians.items():
        ratios = [our / value for our, value in zip(ours, values, strict=True)]
        overhead = overheads.get(tool)
        rows.append(
            [
                tool,
                f"{statistics.median(values) * 1e6:.1f} us",
                f"{statistics.median(ratios):.3f}",
                f"{statistics.stdev(values) / statistics.fmean(values):.2%}"
                if len(values) > 1
                else "-",
                f"{max(values) / min(values) - 1:.1%}",
                f"{overhead['inside'] * 1e6:.3f} us" if overhead else "-",
                f"{overhead['around'] * 1e6:.2f} us" if overhead else "-",
            ]
        )
    header = [
        "tool",
        "median",
        "p3-advisor's median over it",
        "sd of repeats",
        "spread",
        "overhead inside",
        "overhead around",
    ]
    title = (
        f"One function timed by four tools, {options.rounds} rounds of {options.seconds:g} s,"
        f" {options.threads} thread(s)"
    )
    data = {
        "medians": medians,
        "empty": overheads,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "threads": options.threads,
    }
    benchmark_report.publish("other-tools", title, header, rows, data, options.out)


if __name__ == "__main__":
    main()
