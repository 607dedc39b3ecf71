"""The same function under p3-advisor, torch.utils.benchmark, pyperf and optimum-benchmark, in turns; and what each tool takes itself.

    python -m venv .venv-ob
    .venv-ob/bin/pip install torch==2.13.0 transformers==4.57.6 "datasets<5" "huggingface_hub<1" optimum-benchmark==0.6.0
    python tests/benchmarks/other_tools.py --optimum-python .venv-ob/bin/python            # 10 rounds: about 8 minutes
    python tests/benchmarks/other_tools.py --optimum-python .venv-ob/bin/python --rounds 2 --seconds 0.3

Every tool gets a fresh process, the same threads and the same time in each round, in an order that
turns. Targets, on a quiet machine: the medians agree within 2 %, and p3-advisor repeats itself at
least as well as the best of the others. Overhead: at most 0.15 microseconds within the clock and 1
around it.
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

import figures

TOOL = pathlib.Path(__file__).with_name("one_tool.py")
TOOLS = ("p3-advisor", "torch.utils.benchmark", "pyperf", "optimum-benchmark")
TIMED_EMPTY = ("p3-advisor", "optimum-benchmark")


def ask(python: str, tool: str, seconds: float, threads: int) -> dict[str, float]:
    """Run one tool in a process of its own."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
    }
    command = [python, str(TOOL), tool, str(seconds), str(threads)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if answer.returncode:
        message = f"{tool} failed: {answer.stderr[-2000:]}"
        raise RuntimeError(message)
    found: dict[str, float] = json.loads(answer.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    """Drive all tools in turns and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--optimum-python",
        default="",
        help="interpreter that has optimum-benchmark; without it that tool is left out",
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=figures.RESULTS)
    asked = parser.parse_args()
    pythons = {
        tool: asked.optimum_python if tool == "optimum-benchmark" else sys.executable
        for tool in TOOLS
    }
    pythons = {tool: python for tool, python in pythons.items() if python}
    medians: dict[str, list[float]] = {tool: [] for tool in pythons}
    names = list(pythons)
    for number in range(asked.rounds):
        for place in range(len(names)):
            tool = names[(place + number) % len(names)]
            medians[tool].append(ask(pythons[tool], tool, asked.seconds, asked.threads)["median"])
    empty = {
        tool: ask(pythons[tool], tool, 0.0, asked.threads)
        for tool in TIMED_EMPTY
        if tool in pythons
    }
    publish(medians, empty, asked)


def publish(
    medians: dict[str, list[float]], empty: dict[str, dict[str, float]], asked: argparse.Namespace
) -> None:
    """Write a row for each tool."""
    ours = medians["p3-advisor"]
    rows = []
    for tool, values in medians.items():
        ratios = [our / value for our, value in zip(ours, values, strict=True)]
        overhead = empty.get(tool)
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
        "p3-advisor's over it",
        "sd of repeats",
        "largest over smallest",
        "overhead inside",
        "overhead around",
    ]
    title = f"The same function under four tools, {asked.rounds} rounds of {asked.seconds:g} s, {asked.threads} thread(s)"
    data = {
        "medians": medians,
        "empty": empty,
        "rounds": asked.rounds,
        "seconds": asked.seconds,
        "threads": asked.threads,
    }
    figures.publish("other-tools", title, header, rows, data, asked.out)


if __name__ == "__main__":
    main()
