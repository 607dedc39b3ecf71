"""Repeat one question and check whether the runs confirm each other.

    # six runs of this version, and six of another source tree in turn; 12 minutes on two cores
    python tests/studies/reproduce.py --runs 6 --other ../p3-advisor-old -- \\
        --workflows onnxruntime-cpu --gpu cpu

Options after `--` are those of `p3-advisor recommend`. The trees are measured in turn, each with an
empty store, so that both see the same wandering of the machine. `--keep FILE` appends each run to a
file as a line of JSON, and starts with the runs that the file has: a machine that is lent for ten
minutes at a time needs several calls.

A pair of runs is compatible at an arm and a batch size if the two 95 % intervals of the speed-up
overlap. Two equal workers disagree if the difference between the baseline and its duplicate lies
outside its interval: the rounds of this run, with what another run of the same tree states for the
differences between processes. Targets: at least 95 % of the pairs
are compatible, all runs have the same decision, and at most 5 % of the equal workers disagree.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

THIS_TREE = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(THIS_TREE))

from advisor.decide.intervals import HALF_INTERVAL, t_quantile

START = "from advisor.cli import main; main()"
DUPLICATE = "#duplicate"
MOST_SECONDS = 900


@dataclasses.dataclass(frozen=True)
class RunResult:
    """What one run of a tree answered."""

    seconds: float
    document: dict[str, Any]
    #: Log differences between the baseline and its duplicate by batch size, in rounds of the race.
    duplicate: dict[int, list[float]]

    @property
    def answer(self) -> tuple[str, str]:
        """The decision and the advised workflow."""
        advice = self.document["recommendation"] or {}
        decision = advice.get("decision") or {}
        return str(decision.get("word")), str(advice.get("workflow"))

    def cells(self) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
        """Yield the bounded speed-ups by arm and batch size, the baseline excepted."""
        for entry in self.document["results"]["measurements"]:
            for cell in entry["cells"]:
                interval = cell["speedup"]
                bounded = interval["low"] is not None and interval["high"] is not None
                if bounded and interval["low"] < interval["high"]:
                    size = cell["shape"]["batch_size"]
                    yield (entry["arm"], size), {**interval, "processes": cell["processes"]}


def run_once(tree: pathlib.Path, options: Sequence[str]) -> RunResult:
    """Run the question with the program of a source tree, in an empty store."""
    with tempfile.TemporaryDirectory() as home:
        places = dict.fromkeys(("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), home)
        places["P3_ADVISOR_HOME"] = home
        inherited = os.environ.get("PYTHONPATH")
        python_path = os.pathsep.join([str(tree), *([inherited] if inherited else [])])
        environment = {**os.environ, **places, "PYTHONPATH": python_path}
        started = time.monotonic()
        answer = subprocess.run(
            [sys.executable, "-c", START, "recommend", "--json", *options],
            cwd=tree,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            timeout=MOST_SECONDS,
        )
        seconds = time.monotonic() - started
        (events,) = pathlib.Path(home).glob("**/runs/*/events.jsonl")
        return RunResult(seconds, json.loads(answer.stdout), read_duplicate(events))


def read_kept(kept: pathlib.Path) -> list[tuple[str, RunResult]]:
    """Return the runs of a file that `--keep` wrote, each with the name of its tree."""
    if not kept.exists():
        return []
    lines = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    return [
        (
            line["tree"],
            RunResult(
                line["seconds"],
                line["document"],
                {int(size): each for size, each in line["duplicate"].items()},
            ),
        )
        for line in lines
    ]


def keep_run(kept: pathlib.Path, tree: str, run: RunResult) -> None:
    """Append a run to the file of `--keep`."""
    with kept.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"tree": tree, **dataclasses.asdict(run)}) + "\n")


def read_duplicate(events: pathlib.Path) -> dict[int, list[float]]:
    """Return the log differences between the baseline and its duplicate by batch size."""
    seconds: dict[tuple[str, int, int], float] = {}
    repeated: set[tuple[str, int]] = set()
    for line in events.read_text(encoding="utf-8").splitlines():
        run_event = json.loads(line)["run_event"]
        if run_event["event"] == "worker_spawned" and run_event["repeat"]:
            repeated.add((run_event["arm"], run_event["process"]))
        block = run_event.get("worker_event") or {}
        if block.get("event") == "block_timed" and (
            (run_event["arm"], run_event["process"]) not in repeated
        ):
            place = (run_event["arm"], block["shape"]["batch_size"], block["round"])
            seconds[place] = math.log(statistics.median(block["seconds"]))
    differences: dict[int, list[float]] = {}
    for (arm, size, number), value in sorted(seconds.items()):
        baseline = (arm.removesuffix(DUPLICATE), size, number)
        if arm.endswith(DUPLICATE) and baseline in seconds:
            differences.setdefault(size, []).append(seconds[baseline] - value)
    return differences


def compatible_pairs(runs: Sequence[RunResult]) -> tuple[int, int]:
    """Return the pairs of intervals that overlap, and all pairs."""
    overlapping = total = 0
    for one, two in itertools.combinations([dict(run.cells()) for run in runs], 2):
        for place in one.keys() & two.keys():
            total += 1
            overlapping += (
                one[place]["low"] <= two[place]["high"] and two[place]["low"] <= one[place]["high"]
            )
    return overlapping, total


def disagreeing_workers(runs: Sequence[RunResult]) -> tuple[int, int]:
    """Return the equal workers whose difference lies outside its interval, and all."""
    disagreeing = total = 0
    for number, run in enumerate(runs):
        stated = stated_differences(runs[(number + 1) % len(runs)])
        for size, differences in run.duplicate.items():
            if len(differences) < 2:
                continue
            count = len(differences)
            within = t_quantile(0.975, count - 1) * statistics.stdev(differences) / count**0.5
            half_width = math.hypot(within, HALF_INTERVAL * stated.get(size, 0.0))
            total += 1
            disagreeing += abs(statistics.fmean(differences)) > half_width
    return disagreeing, total


def stated_differences(run: RunResult) -> dict[int, float]:
    """Return the standard error between two processes that a run states, by batch size."""
    found: dict[int, list[float]] = {}
    for (_, size), interval in run.cells():
        if interval["process_error"]:
            error = interval["process_error"] * math.sqrt(interval["processes"])
            found.setdefault(size, []).append(error)
    return {size: statistics.median(errors) for size, errors in found.items()}


def summarise(runs: Sequence[RunResult]) -> dict[str, Any]:
    """Return the figures of the runs of one tree."""
    overlapping, pairs = compatible_pairs(runs)
    disagreeing, workers = disagreeing_workers(runs)
    widths = [
        math.log(interval["high"] / interval["low"]) / 2
        for run in runs
        for _, interval in run.cells()
    ]
    return {
        "runs": len(runs),
        "seconds": [round(run.seconds, 1) for run in runs],
        "median_seconds": round(statistics.median(run.seconds for run in runs), 1),
        "answers": [list(run.answer) for run in runs],
        "advised_workflows": sorted({run.answer[1] for run in runs}),
        "trust": [(run.document.get("recommendation") or {}).get("trust") for run in runs],
        "compatible": overlapping,
        "pairs": pairs,
        "equal_workers_outside": disagreeing,
        "equal_workers": workers,
        "median_half_width": round(math.expm1(statistics.median(widths)), 4) if widths else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10, help="runs of each tree")
    parser.add_argument("--other", type=pathlib.Path, help="another source tree to compare with")
    parser.add_argument("--output", type=pathlib.Path, help="the file for the figures")
    parser.add_argument("--keep", type=pathlib.Path, help="a file that every run is appended to")
    parser.add_argument("options", nargs="*", help="options of p3-advisor recommend, after --")
    chosen = parser.parse_args()
    trees = {"this": THIS_TREE, **({"other": chosen.other.resolve()} if chosen.other else {})}
    runs: dict[str, list[RunResult]] = {name: [] for name in trees}
    for name, run in read_kept(chosen.keep) if chosen.keep else ():
        runs[name].append(run)
    for _ in range(chosen.runs):
        for name, tree in trees.items():
            runs[name].append(run_once(tree, chosen.options))
            if chosen.keep:
                keep_run(chosen.keep, name, runs[name][-1])
            if chosen.output:
                chosen.output.write_text(figures_of(runs, chosen.options), encoding="utf-8")
            sys.stderr.write(f"{name}: {runs[name][-1].seconds:.0f} s, {runs[name][-1].answer}\n")
    sys.stdout.write(figures_of(runs, chosen.options))


def figures_of(runs: dict[str, list[RunResult]], options: Sequence[str]) -> str:
    """Return the figures of each tree and the question as JSON."""
    figures: dict[str, Any] = {name: summarise(found) for name, found in runs.items() if found}
    figures["question"] = {"options": list(options)}
    return json.dumps(figures, indent=2) + "\n"


if __name__ == "__main__":
    main()
