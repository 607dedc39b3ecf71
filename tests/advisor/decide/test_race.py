"""Tests of the race: order of visits, eliminations, verdicts, withdrawals and input checks."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide.race import Race, Verdict

LogSeconds = Callable[[str, int], float]


def visit(race: Race, log_seconds: LogSeconds) -> tuple[str, ...]:
    """Drive one round and return the arms in the order of their visits."""
    number = race.rounds + 1
    order = race.next_round()
    for arm in order:
        race.record(arm, log_seconds(arm, number))
    return order


def drive(race: Race, log_seconds: LogSeconds) -> Verdict:
    while not race.finished:
        visit(race, log_seconds)
        assert race.rounds <= 100, "nothing ended the race"
    return race.verdict


def clear(**log_seconds: float) -> LogSeconds:
    """Return times of arms whose differences are far above their noise."""
    return lambda arm, number: log_seconds[arm] + 1e-3 * math.sin(number * sum(arm.encode()))


def noisy(spread: float, seed: int = 0) -> LogSeconds:
    """Return times of arms that differ only by noise."""
    generator = random.Random(seed)
    return lambda _arm, _number: generator.gauss(0, spread)


def zigzag(arm: str, mean: float, half_width: float) -> LogSeconds:
    """Return times where one arm alternates around `mean` and the others are constant."""
    return lambda name, number: (mean + half_width * (-1) ** (number + 1)) if name == arm else 0.0


def test_each_round_has_a_fresh_order() -> None:
    race = Race("abcd", baseline="a", most_rounds=20)
    orders = {visit(race, noisy(1.0)) for _ in range(20)}
    assert len(orders) > 5
    assert {order[0] for order in orders} == set("abcd")


@given(
    seed=st.integers(0, 1000),
    gaps=st.lists(st.sampled_from([0.0, 0.005, 0.1, 1.0]), min_size=1, max_size=5),
)
def test_every_round_visits_each_surviving_arm_once(seed: int, gaps: list[float]) -> None:
    arms = {f"arm{place}": gap for place, gap in enumerate(gaps)}
    race = Race(arms, baseline="arm0", seed=seed)
    noise = random.Random(seed)
    while not race.finished:
        survivors = set(arms) - set(race.verdict.eliminated)
        order = visit(race, lambda arm, _: arms[arm] + noise.gauss(0, 0.02))
        assert sorted(order) == sorted(survivors)


def test_nothing_is_decided_before_the_fourth_round() -> None:
    race = Race("ab", baseline="a")
    for _ in range(3):
        visit(race, clear(a=0.0, b=9.0))
    assert not race.finished
    assert race.verdict.eliminated == {}


def test_arms_in_always_are_visited_after_their_elimination() -> None:
    race = Race("ab", baseline="a", always=["a"], most_rounds=40)
    race.next_round()
    assert sorted(race.due) == ["a", "b"]
    race = Race("abc", baseline="a", always=["a"])
    noise = noisy(0.03)
    for _ in range(4):
        visit(race, lambda arm, number: (1.0 if arm == "a" else 0.0) + noise(arm, number))
    assert race.verdict.eliminated == {"a": 4}
    assert sorted(visit(race, noise)) == ["a", "b", "c"]


@pytest.mark.parametrize("log_seconds", [-3.0, 0.0, 3.0])
def test_an_arm_only_in_always_takes_no_part_in_the_decision(
    log_seconds: float,
) -> None:
    with_duplicate = Race("ab", baseline="a", always=["a", "twin"])
    assert sorted(with_duplicate.due) == ["a", "b", "twin"]
    verdict = drive(with_duplicate, clear(a=0.1, b=0.0, twin=log_seconds))
    assert verdict == drive(Race("ab", baseline="a", always=["a"]), clear(a=0.1, b=0.0))


@pytest.mark.parametrize("most_rounds", [1, 3, 4, 5, 17])
def test_an_undecided_race_ends_at_most_rounds(most_rounds: int) -> None:
    verdict = drive(Race("ab", baseline="a", most_rounds=most_rounds), noisy(1.0))
    assert verdict.kind == "INCONCLUSIVE"
    assert verdict.rounds == most_rounds


def test_the_verdict_is_proven_when_every_rival_is_slower() -> None:
    assert drive(Race("abc", baseline="a"), clear(a=0.5, b=0.0, c=0.2)) == Verdict(
        kind="PROVEN", best="b", tied=("b",), unresolved=(), rounds=4, eliminated={"a": 4, "c": 4}
    )


def test_a_single_arm_is_proven() -> None:
    verdict = drive(Race(["only"], baseline="only"), clear(only=0.0))
    assert (verdict.kind, verdict.best, verdict.rounds) == ("PROVEN", "only", 4)


def test_the_verdict_is_tie_when_every_rival_is_slower_or_equivalent() -> None:
    verdict = drive(Race("abc", baseline="a"), clear(a=0.5, b=0.0, c=0.001))
    assert verdict == Verdict(
        kind="TIE", best="b", tied=("b", "c"), unresolved=(), rounds=4, eliminated={"a": 4}
    )


@pytest.mark.parametrize("settle_rounds", [13, 19])
def test_the_verdict_is_safe_when_no_rival_can_beat_the_margin(settle_rounds: int) -> None:
    race = Race("ab", baseline="a", settle_rounds=settle_rounds)
    verdict = drive(race, zigzag("b", mean=0.01, half_width=0.019))
    assert verdict == Verdict(
        kind="SAFE",
        best="a",
        tied=("a",),
        unresolved=("b",),
        rounds=settle_rounds,
        eliminated={},
    )
    ratio = race.ratio("b", to="a")
    assert 1 / 1.02 < ratio.low < 1
    assert ratio.high > 1.02


def test_the_verdict_is_inconclusive_when_a_rival_may_be_faster() -> None:
    race = Race("ab", baseline="a", most_rounds=9)
    verdict = drive(race, zigzag("b", mean=0.001, half_width=0.2))
    assert verdict == Verdict(
        kind="INCONCLUSIVE", best="a", tied=("a",), unresolved=("b",), rounds=9, eliminated={}
    )
    assert race.ratio("b", to="a").low < 1 / 1.02


def test_an_arm_that_is_not_yet_eliminated_is_not_called_tied() -> None:
    assert Race("abc", baseline="b").verdict == Verdict(
        kind="INCONCLUSIVE", best="b", tied=("b",), unresolved=("a", "c"), rounds=0, eliminated={}
    )
    one_equivalent = Race("abc", baseline="a", most_rounds=4)
    verdict = drive(one_equivalent, zigzag("c", mean=0.01, half_width=0.05))
    assert (verdict.tied, verdict.unresolved) == (("a", "b"), ("c",))


def test_epsilon_decides_which_arms_are_equivalent() -> None:
    kinds = [
        drive(Race("ab", baseline="a", epsilon=epsilon), clear(a=0.0, b=0.0)).kind
        for epsilon in (0.02, 1e-4)
    ]
    assert kinds == ["TIE", "INCONCLUSIVE"]


@given(st.lists(st.floats(-5, 5), min_size=40, max_size=40))
def test_drift_of_whole_rounds_does_not_change_the_verdict(drift: list[float]) -> None:
    def log_seconds(arm: str, number: int) -> float:
        return clear(eager=0.3, one=0.0, other=0.004)(arm, number)

    arms = ["eager", "one", "other"]
    steady = drive(Race(arms, baseline="eager"), log_seconds)
    assert (
        drive(
            Race(arms, baseline="eager"),
            lambda arm, number: log_seconds(arm, number) + drift[number - 1],
        )
        == steady
    )


@pytest.mark.parametrize("arms", list(itertools.permutations(["eager", "one", "other"])))
def test_the_order_in_which_arms_are_named_does_not_matter(arms: Sequence[str]) -> None:
    verdict = drive(Race(arms, baseline="eager"), clear(eager=0.3, one=0.0, other=0.05))
    assert (verdict.kind, verdict.best, verdict.eliminated) == (
        "PROVEN",
        "one",
        {"eager": 4, "other": 4},
    )


def test_a_withdrawn_arm_is_not_visited_and_not_in_the_verdict() -> None:
    race = Race("abc", baseline="a")
    visit(race, clear(a=0.1, b=0.0, c=-5.0))
    race.withdraw("c")
    assert sorted(race.next_round()) == ["a", "b"]
    for arm in "ab":
        race.record(arm, 0.0)
    assert "c" not in {
        race.verdict.best,
        *race.verdict.tied,
        *race.verdict.unresolved,
        *race.verdict.eliminated,
    }


def test_a_round_is_complete_without_an_arm_withdrawn_in_it() -> None:
    race = Race("abc", baseline="a")
    race.next_round()
    race.record("a", 0.0)
    race.withdraw("c")
    assert race.rounds == 0
    race.record("b", 0.0)
    assert race.rounds == 1


def test_withdrawing_the_last_arm_that_is_due_completes_the_round() -> None:
    race = Race("ab", baseline="a", most_rounds=1)
    race.next_round()
    race.record("a", 0.0)
    race.withdraw("b")
    assert race.finished
    assert race.verdict.kind == "PROVEN"


def test_arms_eliminated_against_a_withdrawn_arm_return() -> None:
    race = Race("abc", baseline="a")
    first = drive(race, clear(a=0.3, b=0.3, c=0.0))
    assert first.eliminated == {"a": 4, "b": 4}
    race.withdraw("c")
    assert not race.finished
    assert sorted(race.due) == ["a", "b"]
    assert sorted(drive(race, clear(a=0.3, b=0.3)).tied) == ["a", "b"]


def test_an_arm_eliminated_against_another_arm_stays_eliminated() -> None:
    def log_seconds(arm: str, number: int) -> float:
        return 1.0 if arm == "b" else zigzag("c", mean=0.01, half_width=0.05)(arm, number)

    race = Race("abc", baseline="a")
    for _ in range(4):
        visit(race, log_seconds)
    assert (race.verdict.best, race.verdict.eliminated) == ("a", {"b": 4})
    race.withdraw("c")
    assert race.verdict.eliminated == {"b": 4}
    assert race.due == ("a",)


def test_withdrawing_an_arm_after_the_end_keeps_the_verdict() -> None:
    race = Race("abc", baseline="a")
    drive(race, clear(a=0.3, b=0.0, c=0.5))
    race.withdraw("c")
    assert race.finished
    assert (race.verdict.kind, race.verdict.best, race.verdict.eliminated) == (
        "PROVEN",
        "b",
        {"a": 4},
    )


def test_a_returning_arm_does_not_lift_most_rounds() -> None:
    race = Race("abc", baseline="a", most_rounds=4)
    drive(race, clear(a=0.3, b=0.3, c=0.0))
    race.withdraw("c")
    assert race.finished
    assert sorted(race.verdict.tied) == ["a", "b"]


def test_the_baseline_cannot_be_withdrawn() -> None:
    with pytest.raises(ValueError, match="baseline"):
        Race("ab", baseline="a").withdraw("a")


def test_a_ratio_is_the_seconds_of_one_arm_over_those_of_the_other() -> None:
    race = Race("ab", baseline="a")
    drive(race, clear(a=0.0, b=math.log(2)))
    ratio = race.ratio("b", to="a")
    assert ratio.value == pytest.approx(2, rel=1e-3)
    assert ratio.low < ratio.value < ratio.high
    inverse = race.ratio("a", to="b")
    assert (1 / inverse.value, 1 / inverse.high, 1 / inverse.low) == pytest.approx(
        (ratio.value, ratio.low, ratio.high)
    )


def test_a_ratio_before_the_second_round_has_no_bounds() -> None:
    race = Race("ab", baseline="a")
    visit(race, clear(a=0.0, b=1.0))
    ratio = race.ratio("b", to="a")
    assert (ratio.low, ratio.high) == (0.0, math.inf)


def test_a_ratio_counts_only_rounds_that_visited_both_arms() -> None:
    race = Race("abc", baseline="a", always=["a"])
    noise = noisy(0.03, seed=1)

    def log_seconds(arm: str, number: int) -> float:
        later = 5.0 if number > 4 else 0.0
        return {"a": 0.0, "b": 1.0, "c": 0.0}[arm] + later + noise(arm, number)

    for _ in range(6):
        visit(race, log_seconds)
    assert race.verdict.eliminated == {"b": 4}
    assert race.ratio("b", to="a").value == pytest.approx(math.e, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"arms": "aab"}, "named twice"),
        ({"arms": ""}, "baseline"),
        ({"baseline": "z"}, "baseline 'z'"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"most_rounds": 0}, "most_rounds"),
    ],
)
def test_invalid_arguments_raise_value_error(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Race(**{"arms": "ab", "baseline": "a", **arguments})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_record_that_is_not_finite_is_refused_and_can_be_repeated(value: float) -> None:
    race = Race("ab", baseline="a")
    race.next_round()
    with pytest.raises(ValueError, match="not finite"):
        race.record("a", value)
    race.record("a", 0.0)
    race.record("b", 0.0)
    assert race.rounds == 1


def test_a_record_that_is_not_due_is_refused() -> None:
    race = Race("ab", baseline="a")
    with pytest.raises(ValueError, match="not due"):
        race.record("a", 0.0)
    race.next_round()
    race.record("a", 0.0)
    for arm in ("a", "unknown"):
        with pytest.raises(ValueError, match="not due"):
            race.record(arm, 0.0)


def test_the_next_round_needs_a_complete_round() -> None:
    race = Race("abc", baseline="a")
    race.next_round()
    race.record("b", 0.0)
    with pytest.raises(RuntimeError, match="not recorded in this round: a, c"):
        race.next_round()


def test_a_finished_race_has_no_next_round() -> None:
    race = Race("ab", baseline="a")
    drive(race, clear(a=0.0, b=1.0))
    with pytest.raises(RuntimeError, match="finished"):
        race.next_round()
