"""Compare the time that p3-advisor and optimum-benchmark need to rank the same arms.

    python -m venv .venv-ob
    .venv-ob/bin/pip install torch==2.13.0 transformers==4.57.6 \\
        "datasets<5" "huggingface_hub<1" optimum-benchmark==0.6.0
    # 3 arms: about 6 minutes
    python tests/benchmarks/ranking_cost.py --optimum-python .venv-ob/bin/python
    python tests/benchmarks/ranking_cost.py --optimum-python .venv-ob/bin/python \\
        --duration 1 --warmups 2

The model is a small BERT with random weights, at batch size 1 with 64 tokens. The arms are eager
PyTorch, `torch.compile`, and `torch.compile` with max-autotune. optimum-benchmark runs once for
each arm, with its defaults.

The measuring time excludes builds. For p3-advisor it is the time from the start to the end of the
race. For optimum-benchmark it is the time of the warm-up and of the tracked calls, from its own
report. The processor time of each program's parent process is recorded too. Targets: at most a
fifth of optimum-benchmark's measuring time, and at most 2 % of one core in the parent.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parent)]

import benchmark_report
import psutil

from advisor.domain.run_events import RaceClosed, RaceOpened
from advisor.store.store import Store

MAKE_MODEL = """
import sys, torch
from transformers import BertConfig, BertModel
torch.manual_seed(0)
config = BertConfig(
    vocab_size=2048, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
    intermediate_size=1024,
)
BertModel(config).eval().save_pretrained(sys.argv[1])
"""
CONFIGURATION = """
defaults: [benchmark, scenario: inference, launcher: process, backend: pytorch, _self_]
name: ranking
backend: {library: transformers, task: feature-extraction, model_type: bert, device: cpu}
hydra:
  run: {dir: 'runs/${name}'}
  job: {chdir: true, env_set: {OVERRIDE_BENCHMARKS: 1, LOG_LEVEL: ERROR}}
"""
TOKENS = 64
#: optimum-benchmark's options by the name of the arm in p3-advisor.
ARMS = {
    "pytorch-eager": [],
    "torch-compile-inductor": ["backend.torch_compile=true"],
    "torch-compile-inductor/max-autotune": [
        "backend.torch_compile=true",
        "+backend.torch_compile_config.mode=max-autotune",
    ],
}
POLL_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class Cost:
    """The time one tool needed, and its ranking."""

    wall_seconds: float
    measuring_seconds: float
    parent_cpu_seconds: float
    tree_cpu_seconds: float
    ranking: list[str]
    median_seconds: dict[str, float]


class CpuTimeMonitor:
    """Records the processor time of a process and of all its descendants until it ends."""

    def __init__(self, process: psutil.Popen) -> None:
        self._process = process
        self._child_cpu_seconds: dict[int, float] = {}
        self.parent_cpu_seconds = 0.0
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while self._process.poll() is None:
            self._sample()
            time.sleep(POLL_SECONDS)

    def _sample(self) -> None:
        try:
            self.parent_cpu_seconds = sum(self._process.cpu_times()[:2])
            for child in self._process.children(recursive=True):
                self._child_cpu_seconds[child.pid] = sum(child.cpu_times()[:2])
        except psutil.Error:
            return

    @property
    def tree_cpu_seconds(self) -> float:
        """Processor seconds of the process and its descendants, at the last sample."""
        return self.parent_cpu_seconds + sum(self._child_cpu_seconds.values())

    def wait(self) -> None:
        """Return when the process has ended."""
        self._process.wait()
        self._thread.join()


def run(
    command: list[str], environment: dict[str, str], directory: pathlib.Path, log: pathlib.Path
) -> tuple[float, CpuTimeMonitor]:
    """Run a command to its end; return the wall seconds and the processor time."""
    start = time.monotonic()
    with log.open("wb") as file:
        monitor = CpuTimeMonitor(
            psutil.Popen(command, env=environment, cwd=directory, stdout=file, stderr=file)
        )
        monitor.wait()
    return time.monotonic() - start, monitor


def rank_with_advisor(model: pathlib.Path, directory: pathlib.Path) -> Cost:
    """Run p3-advisor once for all arms."""
    home = directory / "home"
    command = [
        sys.executable,
        "-m",
        "advisor",
        "recommend",
        "--json",
        "--model",
        str(model),
        "--gpu",
        "cpu",
        "--batch-sizes",
        "1",
    ]
    command += [
        "--input-tokens",
        str(TOKENS),
        "--workflows",
        ",".join(ARMS),
        "--budget",
        "quick",
        "--dtype",
        "float32",
    ]
    environment = {**os.environ, "P3_ADVISOR_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    wall, monitor = run(command, environment, directory, directory / "advisor.log")
    stored = Store(home).find("latest")
    times = {
        type(event.run_event): event.at
        for event in stored.events()
        if isinstance(event.run_event, (RaceOpened, RaceClosed))
    }
    answer = json.loads(
        subprocess.run(
            [*command[:3], "show", "--json"], env=environment, capture_output=True, check=True
        ).stdout
    )
    medians = {
        entry["arm"]: entry["cells"][0]["seconds"]["median"]
        for entry in answer["results"]["measurements"]
        if entry["cells"]
    }
    measuring_seconds = times[RaceClosed] - times[RaceOpened]
    return Cost(
        wall,
        measuring_seconds,
        monitor.parent_cpu_seconds,
        monitor.tree_cpu_seconds,
        sorted(medians, key=medians.__getitem__),
        medians,
    )


def rank_with_optimum(
    python: str, model: pathlib.Path, directory: pathlib.Path, warmups: int, duration: int
) -> Cost:
    """Run optimum-benchmark once for each arm."""
    configuration = directory / "ob"
    configuration.mkdir()
    (configuration / "ranking.yaml").write_text(CONFIGURATION)
    command = [
        str(pathlib.Path(python).with_name("optimum-benchmark")),
        "--config-dir",
        str(configuration),
        "--config-name",
        "ranking",
    ]
    command += [
        f"backend.model={model}",
        f"scenario.warmup_runs={warmups}",
        f"scenario.duration={duration}",
    ]
    command += [
        "+scenario.input_shapes.batch_size=1",
        f"+scenario.input_shapes.sequence_length={TOKENS}",
    ]
    wall_seconds, measuring_seconds, parent_cpu_seconds, tree_cpu_seconds, medians = (
        0.0,
        0.0,
        0.0,
        0.0,
        {},
    )
    for number, (arm, options) in enumerate(ARMS.items()):
        arm_command = [*command, f"name=arm{number}", *options]
        wall, monitor = run(
            arm_command,
            {**os.environ, "HF_HUB_OFFLINE": "1"},
            directory,
            directory / f"optimum-{number}.log",
        )
        report = json.loads(
            (directory / "runs" / f"arm{number}" / "benchmark_report.json").read_text()
        )
        values = report["forward"]["latency"]["values"]
        wall_seconds, parent_cpu_seconds, tree_cpu_seconds = (
            wall_seconds + wall,
            parent_cpu_seconds + monitor.parent_cpu_seconds,
            tree_cpu_seconds + monitor.tree_cpu_seconds,
        )
        medians[arm] = sorted(values)[len(values) // 2]
        measuring_seconds += sum(values) + warmups * medians[arm]
    return Cost(
        wall_seconds,
        measuring_seconds,
        parent_cpu_seconds,
        tree_cpu_seconds,
        sorted(medians, key=medians.__getitem__),
        medians,
    )


def main() -> None:
    """Rank with both tools and publish the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--optimum-python", required=True)
    parser.add_argument("--warmups", type=int, default=10, help="optimum-benchmark's own default")
    parser.add_argument("--duration", type=int, default=10, help="optimum-benchmark's own default")
    parser.add_argument("--out", type=pathlib.Path, default=benchmark_report.RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        model = directory / "tiny-bert"
        # The older of the two versions of transformers writes the model; both can read it.
        subprocess.run([options.optimum_python, "-c", MAKE_MODEL, str(model)], check=True)
        costs = {
            "p3-advisor": rank_with_advisor(model, directory),
            "optimum-benchmark": rank_with_optimum(
                options.optimum_python, model, directory, options.warmups, options.duration
            ),
        }
    rows = [
        [
            tool,
            f"{cost.measuring_seconds:.1f} s",
            f"{cost.wall_seconds:.1f} s",
            (
                f"{cost.parent_cpu_seconds:.1f} s"
                f" ({cost.parent_cpu_seconds / cost.wall_seconds:.1%} of a core)"
            ),
            f"{cost.tree_cpu_seconds:.1f} s",
            " < ".join(f"{arm} {cost.median_seconds[arm] * 1e3:.3g} ms" for arm in cost.ranking),
        ]
        for tool, cost in costs.items()
    ]
    header = [
        "tool",
        "measuring",
        "wall, builds included",
        "parent's processor time",
        "all processor time",
        "ranking",
    ]
    data: dict[str, Any] = {
        "costs": {tool: dataclasses.asdict(cost) for tool, cost in costs.items()},
        "duration": options.duration,
    }
    benchmark_report.publish(
        "ranking-cost", f"The cost of ranking {len(ARMS)} arms", header, rows, data, options.out
    )


if __name__ == "__main__":
    main()
