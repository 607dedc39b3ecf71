"""Does a recipe reach, in an environment made from its own header, what was measured? Pairs of a run and the recipes that came of it.

    python tests/benchmarks/recipes.py          # five pairs, five arms: about 25 minutes
    python tests/benchmarks/recipes.py --make openvino,iree --workflows pytorch-eager,openvino,iree --name recipes-own
    python tests/benchmarks/recipes.py --python python3 --gpu cpu --name recipes-many-cores     # where nothing can be installed

Needs uv, which makes the environments, unless an interpreter is named that has what the recipes
need. Target: in the median of five pairs each recipe's throughput is within 5 % of the measured
one. The same ratio of the speed-ups over eager PyTorch stands beside it: both sides of a speed-up
are timed by turns, so it forgives a machine that has become slower meanwhile.
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

import figures

COMMAND = (sys.executable, "-m", "advisor")
WORKFLOWS = "pytorch-eager,torch-compile-inductor/default,aotinductor,onnxruntime-cpu"


def measure(
    asked: argparse.Namespace, environment: dict[str, str]
) -> dict[str, dict[int, dict[str, float]]]:
    """Do an ordinary run; return throughput and speed-up by arm and batch size."""
    question = [
        "--model",
        asked.model,
        "--batch-sizes",
        asked.batch_sizes,
        "--workflows",
        asked.workflows,
        "--budget",
        asked.budget,
    ]
    question += ["--python", asked.python] if asked.python else []
    question += ["--gpu", asked.gpu] if asked.gpu else []
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
        for entry in json.loads(answer.stdout)["workflows"]
        if entry["status"] == "completed"
    }


def serve(
    arm: str, home: pathlib.Path, python: str | None, environment: dict[str, str]
) -> dict[int, dict[str, float]]:
    """Run the recipe of an arm of the newest run, with that interpreter or in an environment made from the recipe's header."""
    script = home / f"serve-{arm.replace('/', '-')}.py"
    subprocess.run(
        [*COMMAND, "recipe", "latest", "--workflow", arm, "-o", script], env=environment, check=True
    )
    uv = shutil.which("uv") or str(pathlib.Path(sys.executable).with_name("uv"))
    runner = [python] if python else [uv, "run", "--no-project"]
    answer = subprocess.run(
        [*runner, script, "--json"], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    return {found["batch_size"]: found for found in map(json.loads, answer.stdout.splitlines())}


def publish(pairs: list[dict[str, Any]], asked: argparse.Namespace) -> None:
    """Print for each arm and batch size what came of the pairs so far, and keep all of them."""
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
    for (arm, size), found in sorted(ratios.items()):
        throughputs, speedups = zip(*found, strict=True)
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
    head = [
        "arm",
        "batch",
        "recipe's throughput over the measured one, median",
        "all pairs",
        "the same of the speed-ups",
    ]
    figures.publish(
        asked.name,
        f"Recipes against what was measured: {asked.model}",
        head,
        rows,
        {"pairs": pairs},
        asked.out,
    )


def main() -> None:
    """Do all pairs and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="synthetic/ffn@512x2048")
    parser.add_argument("--batch-sizes", default="4")
    parser.add_argument("--workflows", default=WORKFLOWS)
    parser.add_argument("--budget", default="10")
    parser.add_argument(
        "--make", default="", help="environments of their own that the workflows need"
    )
    parser.add_argument(
        "--python", help="the interpreter of the run and of the recipes, instead of environments"
    )
    parser.add_argument("--gpu", help="the GPU, or cpu, where a machine has both")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument(
        "--name", default="recipes", help="what the file with the results is called"
    )
    parser.add_argument("--out", type=pathlib.Path, default=figures.RESULTS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        home = pathlib.Path(place)
        environment = {**os.environ, "P3_ADVISOR_HOME": place}
        for name in filter(None, asked.make.split(",")):
            subprocess.run(
                [*COMMAND, "env", "create", name],
                env=environment,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        pairs = []
        for _ in range(asked.pairs):
            measured = measure(asked, environment)
            pairs.append(
                {
                    "measured": measured,
                    "reached": {
                        arm: serve(arm, home, asked.python, environment) for arm in measured
                    },
                }
            )
            publish(pairs, asked)


if __name__ == "__main__":
    main()
