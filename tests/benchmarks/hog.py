"""Race workers of known speed while other processes keep processors busy; count false winners.

    python tests/benchmarks/hog.py             # 20 runs each with 0, 1 and 2 busy processes
    python tests/benchmarks/hog.py --runs 1

Two of the three arms are equal; the third does 5 % more work. A false winner is an arm that is
reported faster than an equal one by more than the margin, or the slower arm if it is reported best.
Targets: no false winner. Discarded visits or visits marked unfit show the disturbance.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parent)]

import benchmark_report
import builders
import known_speed_workers
from builders import BASELINE, DUPLICATE
from sessions import exhaust

from advisor.catalogue import rubric_files
from advisor.domain.question import Budget
from advisor.domain.results import EQUIVALENCE_MARGIN
from advisor.measure.summary import summarise
from advisor.pipeline.answers import provisional
from advisor.pipeline.decision import evaluate
from advisor.pipeline.races import racing
from advisor.pipeline.races.race_context import RaceContext
from advisor.pipeline.recorder import Recorder
from advisor.pipeline.stored import replay
from advisor.probing.session import Session
from advisor.recommendation import certainty, trust

BUSY_LOOP = "while True: pass"
EXTRA_WORK = {BASELINE: 0.0, DUPLICATE: 0.0, "equal": 0.0, "slower": 0.05}
GUARD_RULES = rubric_files.load().presets.guard


@contextmanager
def busy_processors(count: int) -> Iterator[None]:
    """Keep `count` processors busy while the block runs."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run_once(session: Session, seed: int) -> dict[str, Any]:
    """Race once as the pipeline does, and return the verdict and the quality of the visits."""
    plan = builders.plan("equal", "slower")
    question = builders.question(
        budget=Budget(name="quick", measuring_seconds=45, most_rounds=13), seed=seed
    )
    processes = {arm.id: builders.process(loaded=None) for arm in plan.arms}
    recorder = Recorder(builders.run_state(processes, plan=plan), time.monotonic)
    known = builders.catalogue(*(builders.workflow(name) for name in ("equal", "slower")))
    header = builders.header(question=question, catalogue=known)
    has_answer = functools.partial(provisional.has_answer, header)
    races = RaceContext(
        session=session,
        recorder=recorder,
        question=question,
        limits=GUARD_RULES,
        clock=time.monotonic,
        evaluate=functools.partial(evaluate, header),
    )
    exhaust(racing.race_batch_sizes(races, has_answer))
    results = summarise(
        recorder.state,
        replay.results_by_batch_size(recorder.state, question),
        dtype="float32",
    )
    race = results.races[0]
    scored = builders.score_arms(results, question, known)
    _, found = certainty.assess(
        scored, scored, results, question.priorities, known.rubric, seed=question.seed
    )
    grade, reasons = trust.grade(results, found.decision_word)
    is_false_winner = race.best == "slower" or (
        race.verdict == "PROVEN" and {BASELINE, "equal"} & set(race.eliminated) != set()
    )
    return {
        "verdict": race.verdict,
        "decision": found.decision_word,
        "best": race.best,
        "false_winner": bool(is_false_winner) and is_beyond_margin(results, race.best),
        "discarded": results.visits.discarded,
        "unfit": results.visits.unfit,
        "made": results.visits.made,
        "noise_floor": results.noise_floor,
        "trust": grade,
        "reasons": reasons,
    }


def is_beyond_margin(results: Any, best: str) -> bool:
    """Return whether `best` is the slower arm, or the equal arms differ by more than the margin."""
    if best == "slower":
        return True
    (measurement,) = [entry for entry in results.measurements if entry.arm == "equal"]
    low, high = measurement.speedup.low, measurement.speedup.high
    margin = 1 + EQUIVALENCE_MARGIN
    return (low is not None and low > margin) or (high is not None and high < 1 / margin)


def main() -> None:
    """Run with each number of busy processes and publish the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument(
        "--hogs", dest="busy_counts", type=int, nargs="*", default=[0, 1, 2], help="busy processes"
    )
    parser.add_argument("--out", type=pathlib.Path, default=benchmark_report.RESULTS)
    options = parser.parse_args()
    runs_by_count: dict[int, list[dict[str, Any]]] = {}
    with known_speed_workers.session(EXTRA_WORK) as session:
        for count in options.busy_counts:
            with busy_processors(count):
                runs_by_count[count] = [run_once(session, seed) for seed in range(options.runs)]
    rows = []
    for count, runs in runs_by_count.items():
        made = sum(run["made"] for run in runs)
        grades = "".join(sorted(run["trust"] for run in runs))
        rows.append(
            [
                str(count),
                str(sum(run["false_winner"] for run in runs)),
                f"{sum(run['discarded'] for run in runs) / made:.1%}",
                f"{sum(run['unfit'] for run in runs) / made:.1%}",
                ", ".join(f"{grades.count(grade)} {grade}" for grade in "ABCD" if grade in grades),
                ", ".join(sorted({run["verdict"] for run in runs})),
                ", ".join(sorted({run["decision"] for run in runs})),
            ]
        )
    header = [
        "busy processes",
        "false winners",
        "visits discarded",
        "unfit visits that count",
        "trust",
        "verdicts",
        "decisions",
    ]
    benchmark_report.publish(
        "hog",
        f"{options.runs} runs with each number of busy processes",
        header,
        rows,
        {"runs": runs_by_count},
        options.out,
    )


if __name__ == "__main__":
    main()
