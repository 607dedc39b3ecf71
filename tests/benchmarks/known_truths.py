"""Equal arms are not called different, known differences are found: real workers, thousands of visits.

    python tests/benchmarks/known_truths.py                    # 600 sessions of equal arms, 200 of each difference: about 50 minutes
    python tests/benchmarks/known_truths.py --equal 4 --different 2 --per-process 2

Targets: equal arms: "faster" in at most 5 % of the sessions, in at most 1 % by more than the
margin. Different arms: 3 % found in at least 90 %, in the wrong direction in at most 0.5 %; 10 %
found in at least 99 %; at most 13 rounds in the middle. New processes after every `--per-process`
sessions, so that the luck of a process does not decide all.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parent)]

import figures
import spinning
from simulation import lower_bound, upper_bound

from advisor import catalogue
from advisor.measure import block_value
from advisor.pipeline import racing
from advisor.probing.session import Session
from advisor.statistics.race import Race

MARGIN = 0.02
RULES = catalogue.load().presets.guard


def race_once(session: Session, arms: Sequence[str], seed: int) -> Race:
    """Race once as the pipeline does, its guard included."""
    contest, discards = Race(arms, arms[0], seed=seed), racing.Discards(RULES)
    while not contest.finished:
        number = contest.rounds + 1
        for arm in contest.next_round():
            for _ in racing.make_visit(session, arm, 1, number, discards):
                pass
            visit = session.last_visit(arm)
            if visit is None:
                message = f"the worker of {arm} ended"
                raise RuntimeError(message)
            contest.record(arm, block_value(visit))
    return contest


def run_sessions(extra: float, sessions: int, per_process: int) -> list[dict[str, Any]]:
    """Race an arm against one that does `extra` more work, in many sessions."""
    found: list[dict[str, Any]] = []
    while len(found) < sessions:
        with spinning.session({"one": 0.0, "two": extra}) as workers:
            for _ in range(min(per_process, sessions - len(found))):
                contest = race_once(workers, ["one", "two"], seed=len(found))
                ratio = contest.ratio("two", to="one")
                verdict = contest.verdict
                found.append(
                    {
                        "verdict": verdict.kind,
                        "best": verdict.best,
                        "rounds": verdict.rounds,
                        "ratio": [ratio.value, ratio.low, ratio.high],
                    }
                )
    return found


def share(count: int, of: int) -> str:
    return f"{count} of {of} ({count / of:.1%}; 95 %: {lower_bound(count, of, 0.975):.1%} to {upper_bound(count, of, 0.975):.1%})"


def describe(extra: float, found: list[dict[str, Any]], seconds: float) -> list[str]:
    """Return a row of the table."""
    proven = [one for one in found if one["verdict"] == "PROVEN"]
    wrong = [one for one in proven if one["best"] != "one"]
    beyond = [
        one for one in found if one["ratio"][1] > 1 + MARGIN or one["ratio"][2] < 1 / (1 + MARGIN)
    ]
    false = proven if extra == 0 else wrong
    return [
        f"{extra:.0%}",
        share(len(proven), len(found)),
        share(len(false), len(found)),
        share(len(beyond), len(found)),
        f"{statistics.median(one['rounds'] for one in found):.0f}",
        f"{math.exp(statistics.fmean(math.log(one['ratio'][0]) for one in found)) - 1:+.2%}",
        f"{seconds / len(found):.1f} s",
    ]


def main() -> None:
    """Run all sessions and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--equal", type=int, default=600)
    parser.add_argument("--different", type=int, default=200)
    parser.add_argument("--per-process", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, default=figures.RESULTS)
    asked = parser.parse_args()
    rows, data = [], {}
    for extra, sessions in ((0.0, asked.equal), (0.03, asked.different), (0.10, asked.different)):
        begun = time.monotonic()
        found = run_sessions(extra, sessions, asked.per_process)
        rows.append(describe(extra, found, time.monotonic() - begun))
        data[f"{extra:.2f}"] = found
    header = [
        "extra work",
        "shown different",
        "shown wrongly",
        "beyond the margin at 95 %",
        "rounds",
        "mean ratio",
        "a session",
    ]
    figures.publish(
        "known-truths",
        "Known truths: equal arms, and known differences",
        header,
        rows,
        {"sessions": data},
        asked.out,
    )


if __name__ == "__main__":
    main()
