"""A run beside a process that keeps processors busy: does it say so, and does it name a false winner? Real workers of known speeds.

    python tests/benchmarks/hog.py                              # 20 runs without and 20 with a busy process: about 6 minutes
    python tests/benchmarks/hog.py --runs 1

Three arms: two are equal, one does 5 % more work. A false winner is an arm that is shown faster
than an equal one by more than the margin, or the slower arm shown best. Target: none; and the
disturbance is seen in the discards or in visits that count although the machine was not fit.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parent)]

import builders
import figures
import spinning
from builders import BASELINE, DUPLICATE
from simulation import SimulatedRun

from advisor import catalogue, measure, recommend
from advisor.domain.question import Budget
from advisor.pipeline import (
    racing,
    replay,
)
from advisor.pipeline.arms import plan_of
from advisor.probing.session import Session
from advisor.recommend import trust

BUSY = "while True: pass"
EXTRAS = {BASELINE: 0.0, DUPLICATE: 0.0, "equal": 0.0, "slower": 0.05}
RULES = catalogue.load().presets.guard


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Keep `count` processors busy while the block runs."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run_once(session: Session, seed: int) -> dict[str, Any]:
    """Race and judge as the pipeline does."""
    import time  # noqa: PLC0415 - the one place that needs the real clock

    run = SimulatedRun(["equal", "slower"])
    plan = plan_of(run.state)
    question = builders.question(
        budget=Budget(name="quick", measuring_seconds=45, most_rounds=13), seed=seed
    )
    run.state = builders.run_state(
        {arm.id: builders.process(loaded=None) for arm in plan.arms}, plan=plan
    )
    run.take(racing.drive(session, lambda: run.state, question, RULES, time.monotonic))
    results = measure.summarise(
        run.state,
        replay.results_by_batch_size(run.state, question),
        dtype="float32",
        margin=recommend.EPSILON,
    )
    race = results.races[0]
    grade, reasons = trust.grade(results, race.verdict)
    false = race.best == "slower" or (
        race.verdict == "PROVEN" and {BASELINE, "equal"} & set(race.eliminated) != set()
    )
    return {
        "verdict": race.verdict,
        "best": race.best,
        "false_winner": bool(false) and ratio_beyond_margin(results, race.best),
        "discarded": results.visits.discarded,
        "unfit": results.visits.unfit,
        "made": results.visits.made,
        "noise_floor": results.noise_floor,
        "trust": grade,
        "reasons": reasons,
    }


def ratio_beyond_margin(results: Any, best: str) -> bool:
    """Say whether the named winner is shown faster than an equal arm by more than the margin, or is the slower one."""
    if best == "slower":
        return True
    (measurement,) = [entry for entry in results.measurements if entry.arm == "equal"]
    low, high = measurement.speedup.low, measurement.speedup.high
    margin = 1 + recommend.EPSILON
    return (low is not None and low > margin) or (high is not None and high < 1 / margin)


def main() -> None:
    """Run without and with busy processes and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--hogs", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--out", type=pathlib.Path, default=figures.RESULTS)
    asked = parser.parse_args()
    found: dict[int, list[dict[str, Any]]] = {}
    with spinning.session(EXTRAS) as session:
        for count in asked.hogs:
            with hogs(count):
                found[count] = [run_once(session, seed) for seed in range(asked.runs)]
    rows = []
    for count, runs in found.items():
        made = sum(one["made"] for one in runs)
        grades = "".join(sorted(one["trust"] for one in runs))
        rows.append(
            [
                str(count),
                str(sum(one["false_winner"] for one in runs)),
                f"{sum(one['discarded'] for one in runs) / made:.1%}",
                f"{sum(one['unfit'] for one in runs) / made:.1%}",
                ", ".join(f"{grades.count(grade)} {grade}" for grade in "ABCD" if grade in grades),
                ", ".join(sorted({one["verdict"] for one in runs})),
            ]
        )
    header = [
        "busy processes",
        "false winners",
        "visits discarded",
        "unfit visits that count",
        "trust",
        "verdicts",
    ]
    figures.publish(
        "hog", f"{asked.runs} runs beside busy processes", header, rows, {"runs": found}, asked.out
    )


if __name__ == "__main__":
    main()
