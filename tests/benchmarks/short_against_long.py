"""Does the short probe name the winner that a run twenty times as long names? Real stacks, every cell of models x batch sizes.

    python tests/benchmarks/short_against_long.py              # 3 models x 5 arms x 3 batch sizes: about 45 minutes
    python tests/benchmarks/short_against_long.py --models synthetic/matmul@64x128 --batch-sizes 1,2 --times 2 --budget 5

The short probe is an ordinary run. The long one has the same workers' arms in fresh processes and
visits every arm in every round, with nobody eliminated, for twenty times the rounds of the short
one. Targets: same winner, or within 2 % of it, in at least 95 % of the cells; Kendall's tau-b, with
pairs closer than 2 % as ties, at least 0.90; mean regret at most 0.5 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parent)]

import figures

from advisor import measure
from advisor.context import Context
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run import Header
from advisor.domain.run_events import RunEvent
from advisor.pipeline import (
    racing,
)
from advisor.pipeline.arms import plan_of
from advisor.pipeline.decision import Decision, decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import (
    execute,
    open_session,
)
from advisor.probing.conditions import GpuWatch, Guard
from advisor.probing.session import Session
from advisor.question.answers import Answers
from advisor.store import Run, Store

MODELS = "synthetic/matmul-relu@256x1024,synthetic/ffn@512x2048,synthetic/ffn-multilayer@256x1024x4"
WORKFLOWS = "pytorch-eager,torch-compile-inductor,aotinductor,onnxruntime-cpu"
MARGIN = 0.02


@dataclasses.dataclass
class Cell:
    """One model at one batch size: log seconds against the baseline by arm, as both runs have them."""

    model: str
    batch_size: int
    chosen: str
    verdict: str
    short: dict[str, float]
    long: dict[str, float]

    @property
    def regret(self) -> float:
        """By how much the short probe's choice is slower than the long run's best, as the long run has it."""
        return math.expm1(self.long[self.chosen] - min(self.long.values()))

    @property
    def tau(self) -> float | None:
        """Kendall's tau-b of the two orders; None where all arms are tied."""
        from scipy.stats import kendalltau  # noqa: PLC0415 - slow to import

        arms = sorted(self.long)
        value = kendalltau(
            ranks([self.short[arm] for arm in arms]), ranks([self.long[arm] for arm in arms])
        ).statistic
        return None if math.isnan(value) else float(value)


def ranks(values: list[float]) -> list[int]:
    """Return ranks in which an arm closer than the margin to the one before it shares that one's."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0] * len(values)
    for before, place in itertools.pairwise(order):
        found[place] = found[before] + (values[place] - values[before] > math.log1p(MARGIN))
    return found


def run_short(answers: Answers, world: Context) -> tuple[Run, Decision]:
    """Do an ordinary run."""
    run = prepare(answers, world)
    for _ in execute(run, world):
        pass
    return run, decide(run)


def run_long(
    answers: Answers, world: Context, arms: Mapping[int, list[str]], rounds: Mapping[int, int]
) -> dict[int, dict[str, float]]:
    """Visit all `arms` of a batch size in every round; return the median log seconds against the baseline."""
    run = prepare(answers, world)
    header = run.header()
    guard = Guard(GpuWatch(header.question.gpu) if header.question.gpu else None)
    plan = plan_of(decide(run).state)
    wanted = [arm for arm in plan.arms if any(arm.id in names for names in arms.values())]
    with guard.running(), open_session(run, header, world, guard) as session:
        exhaust(session.make_reference(plan.baseline, 0))
        exhaust(session.start([(arm, 0) for arm in wanted]))
        if session.is_running(REFERENCE):
            exhaust(session.ask(REFERENCE, "stop"))
        for arm in wanted:
            exhaust(session.build(arm.id))
        return {
            size: race_all(session, plan.baseline, names, size, rounds[size], header)
            for size, names in arms.items()
        }


def race_all(
    session: Session, baseline: Arm, names: list[str], batch_size: int, rounds: int, header: Header
) -> dict[str, float]:
    """Visit every arm in every round, in fresh random order."""
    chance = random.Random(header.question.seed + batch_size)
    discards = racing.Discards(header.catalogue.presets.guard)
    differences: dict[str, list[float]] = {name: [] for name in names}
    for number in range(1, rounds + 1):
        values = {}
        for name in chance.sample(names, len(names)):
            exhaust(racing.make_visit(session, name, batch_size, number, discards))
            visit = session.last_visit(name)
            if visit is not None:
                values[name] = measure.block_value(visit)
        for name, value in values.items():
            differences[name].append(value - values[baseline.id])
    return {name: statistics.median(each) for name, each in differences.items()}


def exhaust(run_events: Iterator[RunEvent]) -> None:
    for _ in run_events:
        pass


def compare(
    model: str, asked: argparse.Namespace, world: Context
) -> tuple[list[Cell], float, float]:
    """Run short and long for one model; return its cells and the seconds both measured."""
    answers = Answers(
        model=model,
        batch_sizes=asked.batch_sizes,
        workflows=asked.workflows,
        budget=asked.budget,
        gpu=asked.gpu,
    )
    begun = time.monotonic()
    _, decision = run_short(answers, world)
    middle = time.monotonic()
    races = {race.batch_size: race for race in decision.results.races}
    arms = [measurement.arm for measurement in decision.results.measurements]
    rounds = {size: race.rounds * asked.times for size, race in races.items()}
    truth = run_long(answers, world, dict.fromkeys(races, arms), rounds)
    end = time.monotonic()
    short = decision.results.log_speedups
    cells = [
        Cell(
            model,
            size,
            race.best,
            race.verdict,
            {arm: -statistics.fmean(short[arm][size]) for arm in arms},
            truth[size],
        )
        for size, race in races.items()
    ]
    return cells, middle - begun, end - middle


def main() -> None:
    """Run all models and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--batch-sizes", default="1,4,16")
    parser.add_argument("--workflows", default=WORKFLOWS)
    parser.add_argument("--budget", default="quick")
    parser.add_argument("--gpu", default="")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, default=figures.RESULTS)
    asked = parser.parse_args()
    cells: list[Cell] = []
    seconds = [0.0, 0.0]
    with tempfile.TemporaryDirectory() as home:
        world = Context(environment=dict(os.environ), store=Store(pathlib.Path(home)))
        for model in asked.models.split(","):
            found, short, long = compare(model, asked, world)
            cells += found
            seconds = [seconds[0] + short, seconds[1] + long]
    publish(cells, seconds, asked)


def publish(cells: list[Cell], seconds: list[float], asked: argparse.Namespace) -> None:
    """Write a row for each cell and one for all."""
    rows = []
    for cell in cells:
        best = min(cell.long, key=cell.long.__getitem__)
        tau = f"{cell.tau:.2f}" if cell.tau is not None else "all tied"
        rows.append(
            [
                cell.model,
                str(cell.batch_size),
                cell.chosen,
                cell.verdict,
                best,
                f"{cell.regret:.2%}",
                tau,
                str(len(cell.long)),
            ]
        )
    taus = [cell.tau for cell in cells if cell.tau is not None]
    within = sum(cell.regret <= MARGIN for cell in cells)
    mean_tau = f"{statistics.fmean(taus):.2f}" if taus else "all tied"
    rows.append(
        [
            "all",
            "",
            f"{within} of {len(cells)} within 2 %",
            "",
            "",
            f"{statistics.fmean(cell.regret for cell in cells):.2%}",
            mean_tau,
            "",
        ]
    )
    header = [
        "model",
        "batch",
        "short probe says",
        "verdict",
        f"{asked.times} times as long says",
        "regret",
        "tau-b",
        "arms",
    ]
    data: dict[str, Any] = {
        "cells": [
            {**dataclasses.asdict(cell), "regret": cell.regret, "tau": cell.tau} for cell in cells
        ],
        "seconds_with_builds": {"short": seconds[0], "long": seconds[1]},
        "times": asked.times,
    }
    figures.publish(
        "short-against-long", "The short probe against a long run", header, rows, data, asked.out
    )


if __name__ == "__main__":
    main()
