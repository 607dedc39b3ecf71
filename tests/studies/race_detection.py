"""Measure how often the check finds that ONNX Runtime's outputs vary with several threads.

    python tests/studies/race_detection.py --runs 100         # about 10 minutes

ScatterND with addition loses updates of equal indices when it runs on several threads. A graph
network sums 12,000 messages with `index_add`, which is exported to it. Each run has its own inputs
and session, and makes the check of a measurement: the outputs against the reference, then
repeated calls with one input. Target: found in at least 99 % of the runs with several threads, and
never with one.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests"), str(HERE.parent)]

import torch
import workers
from accuracy_panel import cell
from benchmark_report import RESULTS, publish

from probes import protocol
from probes.checking import dispatch, envelope
from probes.checking.array_reference import create_reference
from probes.runtime import cells
from probes.stacks import onnxruntime_session
from probes.subjects.torch_subject import open_torch_subject
from probes.wire.shape import Shape
from probes.workflows import onnxruntime_cpu

NODES, EDGES, WIDTH = 2000, 12_000, 64
RUNS_OF_AN_EXPORT = 10
OPTIONS: dict[str, dict[str, Any]] = {
    "host": {"feeding": "host"},
    "dynamic": {"feeding": "host", "dynamic": True},
    "one-thread": {"feeding": "host", "threads": 1},
}
SOURCE = f"""
import torch


class Graph(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.message = torch.nn.Linear({WIDTH}, {WIDTH})
        self.register_buffer("edges", torch.randint({NODES}, (2, {EDGES})))

    def forward(self, nodes):
        source, target = self.edges
        sent = torch.relu(self.message(nodes))[:, source]
        return nodes + torch.zeros_like(nodes).index_add(1, target, sent)


def build():
    return Graph().eval(), torch.randn(1, {NODES}, {WIDTH})
"""


def make_request(folder: pathlib.Path, arm: str, seed: int) -> protocol.Request:
    file = folder / "graph.py"
    file.write_text(SOURCE)
    scratch = folder / arm
    scratch.mkdir(exist_ok=True)
    return dataclasses.replace(
        workers.make_request(folder, folder),
        subject={"kind": "factory", "name": f"{file}:build"},
        options=OPTIONS[arm],
        seed=seed,
        threads=torch.get_num_threads(),
        scratch_directory=str(scratch),
    )


def run_arm(arm: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return the result of each run; `RUNS_OF_AN_EXPORT` runs share weights and exported file."""
    found = []
    for first in range(0, len(seeds), RUNS_OF_AN_EXPORT):
        with tempfile.TemporaryDirectory() as folder:
            for seed in seeds[first : first + RUNS_OF_AN_EXPORT]:
                request = make_request(pathlib.Path(folder), arm, seed)
                found.append(find_difference(request, weights=seeds[first]))
    return found


def find_difference(request: protocol.Request, weights: int) -> dict[str, Any]:
    """Return the calls of a run, whether its outputs vary, and whether they are wrong."""
    torch.manual_seed(weights)
    subject = open_torch_subject(request)
    inputs = [subject.inputs(1, number) for number in range(request.input_sets)]
    name, exact = subject.reference(inputs)
    produced = [subject.run(each) for each in inputs]
    reference = create_reference(name, exact, produced, inputs, subject.class_counts)
    reference = envelope.measure_rounding(reference, subject, request.accuracy["envelope"])
    onnxruntime_session._sessions.clear()
    program = onnxruntime_cpu.build(subject, inputs[0], request)
    fed = [program.feed(each) for each in inputs]
    rules = workers.rules("float32")
    _, reason = dispatch.check_outputs(onnxruntime_cpu, program, fed, reference, rules, Shape(1))
    limits = cells.repeat_limits(cells.racing_operators(onnxruntime_cpu, program), request)
    calls, difference = dispatch.check_repeats(
        onnxruntime_cpu, program, fed, reference, rules, limits
    )
    return {"calls": calls, "varies": difference is not None, "wrong": reason is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--arms", default="host,dynamic,one-thread")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.runs)
    rows, data = [], {}
    with torch.inference_mode():
        for arm in options.arms.split(","):
            found = data[arm] = run_arm(arm, seeds)
            varying = sum(run["varies"] for run in found)
            refused = sum(run["varies"] or run["wrong"] for run in found)
            calls = statistics.median(run["calls"] for run in found)
            rows.append([arm, cell(varying, len(found)), cell(refused, len(found)), f"{calls:.0f}"])
    header = ("arm", "varies", "varies or is wrong", "calls, median")
    publish("race-detection", "Varying outputs found", header, rows, data, options.out)


if __name__ == "__main__":
    main()
