"""Compare the winner of an ordinary run with the winner of a run of twenty times the rounds.

    # 3 models x 5 arms x 3 batch sizes: about 45 minutes
    python tests/studies/short_against_long.py
    python tests/studies/short_against_long.py --models synthetic/matmul@64x128 \\
        --batch-sizes 1,2 --times 2 --budget 5

A cell is one model at one batch size, measured with real stacks. The short run is an ordinary run.
The long run measures the same arms in new processes, visits every arm in every round and eliminates
none. Targets: the same winner, or one within 2 % of it, in at least 95 % of the cells; Kendall's
tau-b of at least 0.90, where arms closer than 2 % are ties; a mean regret of at most 0.5 %.
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
from collections.abc import Mapping
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests"), str(HERE.parent)]

import benchmark_report
from sessions import exhaust

from advisor.context import Context
from advisor.domain.answer import Answer
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run import Header
from advisor.measure.rounds import log_median_seconds
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute, open_session
from advisor.pipeline.races import racing
from advisor.pipeline.stored.arms import plan_of
from advisor.probing.conditions import ConditionsMonitor, GpuMonitor
from advisor.probing.session import Session
from advisor.question.answers import Answers
from advisor.store.runs import Run
from advisor.store.store import Store
from probes.wire.shape import Shape

MODELS = "synthetic/matmul-relu@256x1024,synthetic/ffn@512x2048,synthetic/ffn-multilayer@256x1024x4"
WORKFLOWS = "pytorch-eager,torch-compile-inductor,aotinductor,onnxruntime-cpu"
MARGIN = 0.02


@dataclasses.dataclass
class Cell:
    """One model at one batch size, with log seconds against the baseline by arm in both runs."""

    model: str
    batch_size: int
    chosen: str
    verdict: str
    short: dict[str, float]
    long: dict[str, float]

    @property
    def regret(self) -> float:
        """Slowdown of the short run's choice against the best arm, both in the long run."""
        return math.expm1(self.long[self.chosen] - min(self.long.values()))

    @property
    def tau(self) -> float | None:
        """Kendall's tau-b of the two orders; None where all arms are tied."""
        from scipy.stats import kendalltau  # noqa: PLC0415 - slow to import

        arms = sorted(self.long)
        value = kendalltau(
            rank_with_ties([self.short[arm] for arm in arms]),
            rank_with_ties([self.long[arm] for arm in arms]),
        ).statistic
        return None if math.isnan(value) else float(value)


def rank_with_ties(values: list[float]) -> list[int]:
    """Return ranks; a value within the margin of the previous one shares its rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    for before, position in itertools.pairwise(order):
        is_apart = values[position] - values[before] > math.log1p(MARGIN)
        ranks[position] = ranks[before] + is_apart
    return ranks


def run_short(answers: Answers, context: Context) -> tuple[Run, Answer]:
    """Execute an ordinary run."""
    run = prepare(answers, context)
    exhaust(execute(run, context))
    return run, decide(run)


def run_long(
    answers: Answers, context: Context, arms: Mapping[int, list[str]], rounds: Mapping[int, int]
) -> dict[int, dict[str, float]]:
    """Return the median log seconds against the baseline by batch size and arm.

    Every round visits all `arms` of the batch size.
    """
    run = prepare(answers, context)
    header = run.header()
    guard = ConditionsMonitor([GpuMonitor(gpu) for gpu in header.question.gpus])
    plan = plan_of(run.state())
    raced_arms = [arm for arm in plan.arms if any(arm.id in names for names in arms.values())]
    with guard.running(), open_session(run, header, context, guard) as session:
        exhaust(session.start_reference(plan.baseline, 0))
        exhaust(session.start([(arm, 0) for arm in raced_arms]))
        if session.is_running(REFERENCE):
            exhaust(session.send_and_wait(REFERENCE, "stop"))
        for arm in raced_arms:
            exhaust(session.build(arm.id))
        return {
            size: race_all(session, plan.baseline, names, size, rounds[size], header)
            for size, names in arms.items()
        }


def race_all(
    session: Session, baseline: Arm, names: list[str], batch_size: int, rounds: int, header: Header
) -> dict[str, float]:
    """Visit every arm in every round, each time in a new random order."""
    rng = random.Random(header.question.seed + batch_size)
    discards = racing.DiscardCounts(header.catalogue.presets.guard)
    differences: dict[str, list[float]] = {name: [] for name in names}
    for number in range(1, rounds + 1):
        values = {}
        for name in rng.sample(names, len(names)):
            exhaust(racing.measure_visit(session, name, Shape(batch_size), number, discards))
            visit = session.last_visit(name)
            if visit is not None:
                values[name] = log_median_seconds(visit)
        for name, value in values.items():
            differences[name].append(value - values[baseline.id])
    return {name: statistics.median(each) for name, each in differences.items()}


def run_both(
    model: str, options: argparse.Namespace, context: Context
) -> tuple[list[Cell], float, float]:
    """Run short and long for one model; return its cells and the wall seconds of both runs."""
    answers = Answers(
        model=model,
        batch_sizes=options.batch_sizes,
        workflows=options.workflows,
        budget=options.budget,
        gpu=options.gpu,
    )
    start = time.monotonic()
    _, answer = run_short(answers, context)
    middle = time.monotonic()
    races = {race.shape.batch_size: race for race in answer.results.races}
    arms = [measurement.arm for measurement in answer.results.measurements]
    rounds = {size: race.rounds * options.times for size, race in races.items()}
    long_medians = run_long(answers, context, dict.fromkeys(races, arms), rounds)
    end = time.monotonic()
    short = answer.results.log_speedups
    cells = [
        Cell(
            model,
            size,
            race.best,
            race.verdict,
            {arm: -statistics.fmean(short[arm][str(size)]) for arm in arms},
            long_medians[size],
        )
        for size, race in races.items()
    ]
    return cells, middle - start, end - middle


def main() -> None:
    """Run all models and publish the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--batch-sizes", default="1,4,16")
    parser.add_argument("--workflows", default=WORKFLOWS)
    parser.add_argument("--budget", default="quick")
    parser.add_argument("--gpu", default="")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, default=benchmark_report.RESULTS)
    options = parser.parse_args()
    cells: list[Cell] = []
    seconds = [0.0, 0.0]
    with tempfile.TemporaryDirectory() as home:
        context = Context(environment=dict(os.environ), store=Store(pathlib.Path(home)))
        for model in options.models.split(","):
            model_cells, short, long = run_both(model, options, context)
            cells += model_cells
            seconds = [seconds[0] + short, seconds[1] + long]
    publish(cells, seconds, options)


def publish(cells: list[Cell], seconds: list[float], options: argparse.Namespace) -> None:
    """Publish a row for each cell and one for all cells."""
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
    within_margin = sum(cell.regret <= MARGIN for cell in cells)
    mean_tau = f"{statistics.fmean(taus):.2f}" if taus else "all tied"
    rows.append(
        [
            "all",
            "",
            f"{within_margin} of {len(cells)} within 2 %",
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
        "winner of the short run",
        "verdict",
        f"winner of a run {options.times} times as long",
        "regret",
        "tau-b",
        "arms",
    ]
    data: dict[str, Any] = {
        "cells": [
            {**dataclasses.asdict(cell), "regret": cell.regret, "tau": cell.tau} for cell in cells
        ],
        "seconds_with_builds": {"short": seconds[0], "long": seconds[1]},
        "times": options.times,
    }
    benchmark_report.publish(
        "short-against-long",
        "Winner of a short run and of a long run",
        header,
        rows,
        data,
        options.out,
    )


if __name__ == "__main__":
    main()
