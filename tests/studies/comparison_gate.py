"""Measure how often `compare` is wrong: false alarms, and planted regressions that it misses.

`python tests/studies/comparison_gate.py RUNS [--slower 10,20] [--output FILE]` takes the
finished runs of one question in the store RUNS and prints the shares. Every ordered pair of runs is
compared as it is; each regression that is found is a false alarm. Then the times of one arm in the
second run of the pair are multiplied, and the run is decided again from the raw times; each arm
that is not found slower is a miss. RUNS may also be a file with the JSON answer of a run in each
line, whose figures are multiplied instead. The targets are at most 2 % of pairs with a false alarm,
and 90 % of planted regressions of 10 % found on a quiet machine, with the threshold of 5 %.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

import msgspec

from advisor.domain.answer import Answer
from advisor.domain.measurement import Cell
from advisor.domain.plan import BASELINE
from advisor.pipeline.decision import decide
from advisor.report.comparisons.comparison import compare_answers
from advisor.store.runs import Run
from advisor.store.store import Store

THRESHOLD = 0.05
#: Makes the calls of an arm take longer by a factor in every run.
SlowedRuns = Callable[[str, float], Sequence[Answer]]


def slow_down(run: Run, arm: str, factor: float, home: pathlib.Path) -> Answer:
    """Return the answer of a copy of the run in which the calls of `arm` take longer."""
    directory = home / "runs" / run.directory.name
    directory.mkdir(parents=True)
    (directory / "run.json").write_bytes((run.directory / "run.json").read_bytes())
    lines = []
    for line in (run.directory / "events.jsonl").read_text().splitlines():
        event: dict[str, Any] = json.loads(line)
        run_event = event["run_event"]
        block = run_event.get("worker_event", {})
        if run_event.get("arm") == arm and block.get("event") == "block_timed":
            block["seconds"] = [factor * each for each in block["seconds"]]
        lines.append(json.dumps(event))
    (directory / "events.jsonl").write_text("\n".join(lines) + "\n")
    return decide(Store(home).find(directory.name))


def slow_down_answer(answer: Answer, arm: str, factor: float) -> Answer:
    """Return the answer with the figures of `arm` if its calls took longer."""
    measurements = tuple(
        msgspec.structs.replace(
            entry, cells=tuple(slow_down_cell(cell, factor) for cell in entry.cells)
        )
        if entry.arm == arm
        else entry
        for entry in answer.results.measurements
    )
    results = msgspec.structs.replace(answer.results, measurements=measurements)
    return msgspec.structs.replace(answer, results=results)


def slow_down_cell(cell: Cell, factor: float) -> Cell:
    speedup, seconds = cell.speedup, cell.seconds
    return msgspec.structs.replace(
        cell,
        speedup=msgspec.structs.replace(
            speedup,
            value=speedup.value / factor,
            low=speedup.low and speedup.low / factor,
            high=speedup.high and speedup.high / factor,
        ),
        seconds=msgspec.structs.replace(
            seconds,
            median=seconds.median * factor,
            low=seconds.low and seconds.low * factor,
            high=seconds.high and seconds.high * factor,
        ),
    )


def count_false_alarms(answers: Sequence[Answer]) -> dict[str, int]:
    """Compare every ordered pair of runs."""
    outcomes = [
        compare_answers(first, second, THRESHOLD).outcome
        for first, second in itertools.permutations(answers, 2)
    ]
    return {name: outcomes.count(name) for name in sorted({*outcomes, "regression"})}


def count_found(
    answers: Sequence[Answer], slowed: dict[str, Sequence[Answer]]
) -> dict[str, dict[str, int]]:
    """Compare every run with every other one in which one arm is slower."""
    counts = {}
    for arm, later in slowed.items():
        pairs = [
            (first, second)
            for (i, first), (j, second) in itertools.product(enumerate(answers), enumerate(later))
            if i != j
        ]
        changes = [
            [each for each in compare_answers(*pair, THRESHOLD).changes if each.arm == arm]
            for pair in pairs
        ]
        cells = [each for pair in changes for each in pair]
        counts[arm] = {
            "pairs": len(pairs),
            "pairs found": sum(any(each.verdict == "slower" for each in one) for one in changes),
            "cells": len(cells),
            "cells found": sum(each.verdict == "slower" for each in cells),
            "cells undecided": sum(each.verdict == "undecided" for each in cells),
        }
    return counts


def read_runs(place: pathlib.Path) -> tuple[list[Answer], SlowedRuns]:
    """Return the answers of the runs, and the function that makes an arm slower in each."""
    if place.is_file():
        answers = [
            msgspec.json.decode(line, type=Answer) for line in place.read_bytes().splitlines()
        ]
        return answers, lambda arm, factor: [
            slow_down_answer(answer, arm, factor) for answer in answers
        ]
    store = Store(place)
    runs = [store.find(entry.run_id) for entry in store.history() if entry.finished]

    def slow(arm: str, factor: float) -> list[Answer]:
        with tempfile.TemporaryDirectory() as folder:
            return [slow_down(run, arm, factor, pathlib.Path(folder)) for run in runs]

    return [decide(run) for run in runs], slow


def main() -> None:
    """Compare the runs and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=pathlib.Path, help="a store, or a file with answers")
    parser.add_argument("--slower", default="10", help="planted regressions in percent")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    answers, slow = read_runs(arguments.runs)
    measured = answers[0].results.measurements
    arms = [entry.arm for entry in measured if entry.cells and entry.arm != BASELINE]
    result: dict[str, Any] = {
        "runs": [answer.run_id for answer in answers],
        "equal runs": count_false_alarms(answers),
    }
    for percent in map(int, arguments.slower.split(",")):
        factor = 1 / (1 - percent / 100)
        slowed = {arm: slow(arm, factor) for arm in arms}
        result[f"one arm {percent} % slower"] = count_found(answers, slowed)
    text = json.dumps(result, indent=2) + "\n"
    sys.stdout.write(text)
    if arguments.output:
        arguments.output.write_text(text)


if __name__ == "__main__":
    main()
