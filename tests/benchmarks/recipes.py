"""Compare the throughput of recipes with the throughput of the run that they come from.

    python tests/benchmarks/recipes.py          # five pairs, five arms: about 25 minutes
    python tests/benchmarks/recipes.py --make openvino,iree \\
        --workflows pytorch-eager,openvino,iree --name recipes-own
    # where nothing can be installed
    python tests/benchmarks/recipes.py --python python3 --gpu cpu --name recipes-many-cores

A pair is one run and the recipes of its arms. uv runs each recipe in an environment made from the
recipe's header. With `--python`, that interpreter must have all packages and uv is not needed.

Target: in the median of five pairs, the throughput of each recipe is within 5 % of the measured
one. The table also shows the ratio of the speed-ups over eager PyTorch. Both times of a speed-up
come from alternating blocks, so this ratio does not change when the whole machine becomes slower.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE)]

import benchmark_report

COMMAND = (sys.executable, "-m", "advisor")
WORKFLOWS = "pytorch-eager,torch-compile-inductor/default,aotinductor,onnxruntime-cpu"


def measure_arms(
    options: argparse.Namespace, environment: dict[str, str]
) -> dict[str, dict[int, dict[str, float]]]:
    """Run the advisor; return throughput and speed-up by arm and batch size."""
    question = [
        "--model",
        options.model,
        "--batch-sizes",
        options.batch_sizes,
        "--workflows",
        options.workflows,
        "--budget",
        options.budget,
    ]
    question += ["--python", options.python] if options.python else []
    question += ["--gpu", options.gpu] if options.gpu else []
    answer = subprocess.run(
        [*COMMAND, "--json", *question], env=environment, stdout=subprocess.PIPE, check=True
    )
    return {
        entry["arm"]: {
            cell["batch_size"]: {
                "throughput": cell["throughput"]["value"],
                "speedup": cell["speedup"]["value"],
            }
            for cell in entry["cells"]
        }
        for entry in json.loads(answer.stdout)["results"]["measurements"]
    }


def run_recipe(
    arm: str, home: pathlib.Path, python: str | None, environment: dict[str, str]
) -> dict[int, dict[str, float]]:
    """Run the recipe of an arm of the newest run; return its results by batch size.

    It runs with the interpreter `python`; without one, in an environment made from its header.
    """
    script = home / f"serve-{arm.replace('/', '-')}.py"
    subprocess.run(
        [*COMMAND, "recipe", "latest", "--workflow", arm, "--style", "check", "-o", script],
        env=environment,
        check=True,
    )
    uv = shutil.which("uv") or str(pathlib.Path(sys.executable).with_name("uv"))
    runner = [python] if python else [uv, "run", "--no-project"]
    answer = subprocess.run(
        [*runner, script, "--json"], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    return {result["batch_size"]: result for result in map(json.loads, answer.stdout.splitlines())}


def publish(pairs: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the ratios by arm and batch size, and write all pairs measured so far."""
    ratios: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for pair in pairs:
        for arm, sizes in pair["reached"].items():
            for size, reached in sizes.items():
                measured = pair["measured"][arm][size]
                speedup = (
                    reached["speedup"] / measured["speedup"] if reached["speedup"] else math.nan
                )
                ratios.setdefault((arm, size), []).append(
                    (reached["throughput"] / measured["throughput"], speedup)
                )
    rows = []
    for (arm, size), arm_ratios in sorted(ratios.items()):
        throughputs, speedups = zip(*arm_ratios, strict=True)
        spread = f"{min(throughputs):.3f} to {max(throughputs):.3f}"
        rows.append(
            [
                arm,
                str(size),
                f"{statistics.median(throughputs):.3f}",
                spread,
                f"{statistics.median(speedups):.3f}",
            ]
        )
    header = [
        "arm",
        "batch",
        "recipe's throughput over the measured one, median",
        "all pairs",
        "ratio of the speed-ups, median",
    ]
    benchmark_report.publish(
        options.name,
        f"Recipes compared with measurements: {options.model}",
        header,
        rows,
        {"pairs": pairs},
        options.out,
    )


def main() -> None:
    """Measure all pairs; publish the table after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="synthetic/ffn@512x2048")
    parser.add_argument("--batch-sizes", default="4")
    parser.add_argument("--workflows", default=WORKFLOWS)
    parser.add_argument("--budget", default="10")
    parser.add_argument(
        "--make", default="", help="environments to create for the workflows, separated by commas"
    )
    parser.add_argument(
        "--python", help="the interpreter of the run and of the recipes; default: environments"
    )
    parser.add_argument("--gpu", help="the GPU, or cpu, where a machine has both")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--name", default="recipes", help="name of the file with the results")
    parser.add_argument("--out", type=pathlib.Path, default=benchmark_report.RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory)
        environment = {**os.environ, "P3_ADVISOR_HOME": directory}
        for name in filter(None, options.make.split(",")):
            subprocess.run(
                [*COMMAND, "env", "create", name],
                env=environment,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        pairs = []
        for _ in range(options.pairs):
            measured = measure_arms(options, environment)
            pairs.append(
                {
                    "measured": measured,
                    "reached": {
                        arm: run_recipe(arm, home, options.python, environment) for arm in measured
                    },
                }
            )
            publish(pairs, options)


if __name__ == "__main__":
    main()
