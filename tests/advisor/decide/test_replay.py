"""The verdicts of the groups of a batch size are merged into one."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.decide import replay
from advisor.decide.race import Verdict


def verdict(
    kind: Any,
    best: str,
    *,
    tied: tuple[str, ...] = (),
    unresolved: tuple[str, ...] = (),
    rounds: int = 4,
    **eliminated: int,
) -> Verdict:
    return Verdict(kind, best, (best, *tied), unresolved, rounds, eliminated)


@pytest.mark.parametrize(
    ("earlier", "later", "merged"),
    [
        (
            verdict("PROVEN", "a", b=4),
            verdict("PROVEN", "a", rounds=9, c=9),
            verdict("PROVEN", "a", rounds=9, b=4, c=9),
        ),
        (
            verdict("PROVEN", "a", b=4),
            verdict("PROVEN", "c", rounds=9, a=9),
            verdict("PROVEN", "c", rounds=9, b=4, a=9),
        ),
        (
            verdict("TIE", "a", tied=("b",)),
            verdict("PROVEN", "a", rounds=9, c=9),
            verdict("TIE", "a", tied=("b",), rounds=9, c=9),
        ),
        (
            verdict("SAFE", "a", unresolved=("b",)),
            verdict("TIE", "a", tied=("c",)),
            verdict("SAFE", "a", tied=("c",), unresolved=("b",)),
        ),
        (
            verdict("TIE", "a", tied=("b",)),
            verdict("PROVEN", "c", a=9),
            verdict("INCONCLUSIVE", "c", unresolved=("b",), a=9),
        ),
        (
            verdict("INCONCLUSIVE", "a", unresolved=("b",)),
            verdict("PROVEN", "a", b=9),
            verdict("PROVEN", "a", b=9),
        ),
    ],
)
def test_arms_left_open_by_the_earlier_group_stay_open(
    earlier: Verdict, later: Verdict, merged: Verdict
) -> None:
    assert replay.merge_verdicts(earlier, later, {}) == merged


EARLIER = verdict("PROVEN", "a", b=4)


@pytest.mark.parametrize(
    ("later", "log_speedups", "merged"),
    [
        (verdict("PROVEN", "b", rounds=9, c=9), {}, verdict("PROVEN", "a", rounds=9, b=4, c=9)),
        (
            verdict("TIE", "b", tied=("c",)),
            {},
            verdict("INCONCLUSIVE", "a", unresolved=("c",), b=4),
        ),
        (
            verdict("PROVEN", "c", b=9),
            {"a": 2.0, "c": 1.0},
            verdict("INCONCLUSIVE", "a", unresolved=("c",), b=4),
        ),
        (
            verdict("PROVEN", "c", b=9),
            {"a": 1.0, "c": 2.0},
            verdict("INCONCLUSIVE", "c", unresolved=("a",), b=9),
        ),
    ],
    ids=[
        "an arm it had beaten wins",
        "an arm it had beaten ties",
        "a new arm has a smaller speedup",
        "a new arm has a larger speedup",
    ],
)
def test_a_best_arm_without_a_place_in_the_later_group_loses_only_to_a_larger_speedup(
    later: Verdict, log_speedups: dict[str, float], merged: Verdict
) -> None:
    assert replay.merge_verdicts(EARLIER, later, log_speedups) == merged
