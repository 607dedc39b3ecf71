"""Race real workers of equal and of known different speed, and count the wrong verdicts.

    python tests/studies/known_truths.py    # 600 equal and 2 x 200 different: about 50 minutes
    python tests/studies/known_truths.py --equal 4 --different 2 --per-process 2

Targets:

- Equal arms: reported different in at most 5 % of the sessions, by more than the margin in at most
  1 %.
- 3 % more work: found in at least 90 % of the sessions, in the wrong direction in at most 0.5 %.
- 10 % more work: found in at least 99 %.
- At most 13 rounds in the median.

New processes start after every `--per-process` sessions, so that one process that happens to be
fast or slow does not decide the result.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests"), str(HERE.parent)]

import benchmark_report
import builders
import msgspec
from simulation import lower_bound, upper_bound

from advisor.catalogue import rubric_files
from advisor.domain.plan import REFERENCE, Arm
from advisor.machine import detection
from advisor.measure.rounds import log_median_seconds
from advisor.pipeline.races import racing
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor
from advisor.statistics.race import Race
from probes.wire.shape import Shape

MARGIN = 0.02
GUARD_RULES = rubric_files.load().presets.guard
#: Matrix products in a call of the fastest arm: about half a millisecond.
REPEATS = 300


def arm(name: str, extra: float) -> Arm:
    """Return an arm whose calls do a share of `extra` more work."""
    return builders.arm(name, workflow="spin", options={"repeats": round(REPEATS * (1 + extra))})


@contextlib.contextmanager
def session(extras: Mapping[str, float]) -> Iterator[Session]:
    """Yield a session with one resident worker of each arm, built and warmed up."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        probes = directory / "probes"
        shutil.copytree(
            rubric_files.probes_directory(),
            probes,
            ignore=shutil.ignore_patterns("workflows", "__pycache__"),
        )
        (probes / "workflows").mkdir()
        (probes / "workflows" / "__init__.py").write_text('"""Contains one workflow."""\n')
        shutil.copy(HERE / "spin.py", probes / "workflows")
        run_config = RunConfig(
            question=builders.question(python=sys.executable, batch_sizes=(1,)),
            machine=msgspec.structs.replace(builders.machine(), cpu=detection.detect_cpu()),
            arms_directory=directory / "arms",
            scratch_directory=directory / "scratch",
            probes_directory=probes,
            minimum_engaged_share=0.0,
            accuracy=rubric_files.read_shipped_accuracy(),
            environment=dict(os.environ),
        )
        arms = [arm(name, extra) for name, extra in extras.items()]
        with Supervisor(rubric_files.load().presets.deadlines) as supervisor:
            workers = Session(supervisor, run_config, ConditionsMonitor())
            for run_events in (
                workers.start_reference(arms[0], 0),
                workers.start([(each, 0) for each in arms]),
            ):
                for _ in run_events:
                    pass
            if workers.is_running(REFERENCE):
                for _ in workers.send_and_wait(REFERENCE, "stop"):
                    pass
            for each in arms:
                for _ in workers.build(each.id):
                    pass
                if not workers.is_running(each.id):
                    message = f"the worker of {each.id} ended"
                    raise RuntimeError(message)
            yield workers


def race_once(workers: Session, arms: Sequence[str], seed: int) -> Race:
    """Race once as the pipeline does, with its checks of the machine's condition."""
    race, discards = Race(arms, arms[0], seed=seed), racing.DiscardCounts(GUARD_RULES)
    while not race.finished:
        number = race.rounds + 1
        for arm in race.next_round():
            for _ in racing.measure_visit(workers, arm, Shape(1), number, discards):
                pass
            visit = workers.last_visit(arm)
            if visit is None:
                message = f"the worker of {arm} ended"
                raise RuntimeError(message)
            race.record(arm, log_median_seconds(visit))
    return race


def run_sessions(extra: float, sessions: int, per_process: int) -> list[dict[str, Any]]:
    """Race an arm against one that does `extra` more work, in many sessions."""
    results: list[dict[str, Any]] = []
    while len(results) < sessions:
        with session({"one": 0.0, "two": extra}) as workers:
            for _ in range(min(per_process, sessions - len(results))):
                race = race_once(workers, ["one", "two"], seed=len(results))
                ratio = race.ratio("two", to="one")
                verdict = race.verdict
                results.append(
                    {
                        "verdict": verdict.kind,
                        "best": verdict.best,
                        "rounds": verdict.rounds,
                        "ratio": [ratio.value, ratio.low, ratio.high],
                    }
                )
    return results


def format_share(count: int, total: int) -> str:
    low, high = lower_bound(count, total, 0.975), upper_bound(count, total, 0.975)
    return f"{count} of {total} ({count / total:.1%}; 95 %: {low:.1%} to {high:.1%})"


def table_row(extra: float, results: list[dict[str, Any]], seconds: float) -> list[str]:
    """Return the table row of the sessions with `extra` more work."""
    proven = [result for result in results if result["verdict"] == "PROVEN"]
    wrong = [result for result in proven if result["best"] != "one"]
    beyond = [
        result
        for result in results
        if result["ratio"][1] > 1 + MARGIN or result["ratio"][2] < 1 / (1 + MARGIN)
    ]
    mean_log_ratio = statistics.fmean(math.log(result["ratio"][0]) for result in results)
    false_results = proven if extra == 0 else wrong
    return [
        f"{extra:.0%}",
        format_share(len(proven), len(results)),
        format_share(len(false_results), len(results)),
        format_share(len(beyond), len(results)),
        f"{statistics.median(result['rounds'] for result in results):.0f}",
        f"{math.expm1(mean_log_ratio):+.2%}",
        f"{seconds / len(results):.1f} s",
    ]


def main() -> None:
    """Run all sessions and publish the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--equal", type=int, default=600)
    parser.add_argument("--different", type=int, default=200)
    parser.add_argument("--per-process", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, default=benchmark_report.RESULTS)
    options = parser.parse_args()
    rows, data = [], {}
    for extra, sessions in (
        (0.0, options.equal),
        (0.03, options.different),
        (0.10, options.different),
    ):
        start = time.monotonic()
        results = run_sessions(extra, sessions, options.per_process)
        rows.append(table_row(extra, results, time.monotonic() - start))
        data[f"{extra:.2f}"] = results
    header = [
        "extra work",
        "reported different",
        "wrong",
        "beyond the margin at 95 %",
        "rounds",
        "mean ratio",
        "a session",
    ]
    benchmark_report.publish(
        "known-truths",
        "Known truths: equal arms, and known differences",
        header,
        rows,
        {"sessions": data},
        options.out,
    )


if __name__ == "__main__":
    main()
