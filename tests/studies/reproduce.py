"""Repeat one question and check whether the runs confirm each other.

    # six runs; 6 minutes on two cores
    python tests/studies/reproduce.py --runs 6 -- --workflows onnxruntime-cpu --gpu cpu

Options after `--` are those of `p3-advisor recommend`. Each has an empty store. `--folder` keeps
them, and begins with those that are there: a machine may be lent for ten minutes at a time.

A pair of runs is compatible at an arm and a batch size if the two 95 % intervals of the speed-up
overlap. Targets: at least 95 % of the pairs are compatible, and all runs have the same decision.
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
#: The file of a store with the answer and its seconds.
ANSWER = "answer.json"
MOST_SECONDS = 900


@dataclasses.dataclass(frozen=True)
class RunResult:
    """What one run answered."""

    seconds: float
    document: dict[str, Any]

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
                    yield (entry["arm"], size), interval


def run_once(home: pathlib.Path, options: Sequence[str]) -> None:
    """Run the question with an empty store in `home`, and keep its answer there."""
    places = dict.fromkeys(("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), str(home))
    started = time.monotonic()
    answer = subprocess.run(
        [sys.executable, "-m", "advisor", "recommend", "--json", *options],
        cwd=THIS_TREE,
        env={**os.environ, **places, "P3_ADVISOR_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    found = {"seconds": time.monotonic() - started, "document": json.loads(answer.stdout)}
    (home / ANSWER).write_text(json.dumps(found), encoding="utf-8")


def read_run(home: pathlib.Path) -> RunResult:
    """Return what `run_once` kept."""
    return RunResult(**json.loads((home / ANSWER).read_text(encoding="utf-8")))


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


def summarise(runs: Sequence[RunResult]) -> dict[str, Any]:
    """Return the figures of the runs."""
    overlapping, pairs = compatible_pairs(runs)
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
        "median_half_width": round(math.expm1(statistics.median(widths)), 4) if widths else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--folder", type=pathlib.Path, help="where the stores are kept")
    parser.add_argument("options", nargs="*", help="options of p3-advisor recommend, after --")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        homes = [
            pathlib.Path(chosen.folder or temporary, str(number)) for number in range(chosen.runs)
        ]
        for home in homes:
            if not (home / ANSWER).exists():
                home.mkdir(parents=True)
                run_once(home, chosen.options)
                run = read_run(home)
                sys.stderr.write(f"{home.name}: {run.seconds:.0f} s, {run.answer}\n")
        figures = {**summarise([*map(read_run, homes)]), "options": chosen.options}
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
