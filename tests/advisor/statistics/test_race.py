"""The race as a library that others drive: what it promises whoever feeds it, and every kind of verdict."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.statistics.race import Race, Verdict

Speeds = Callable[[str, int], float]
MARGIN = math.log1p(0.02)


def visit(race: Race, speeds: Speeds) -> tuple[str, ...]:
    """Drive one round; return the arms in the order they were visited."""
    number = race.rounds + 1
    order = race.next_round()
    for arm in order:
        race.record(arm, speeds(arm, number))
    return order


def drive(race: Race, speeds: Speeds) -> Verdict:
    while not race.finished:
        visit(race, speeds)
        assert race.rounds <= 100, "nothing ended the race"
    return race.verdict


def clear(**log_seconds: float) -> Speeds:
    """Arms that differ by much more than they vary."""
    return lambda arm, number: log_seconds[arm] + 1e-3 * math.sin(number * sum(arm.encode()))


def noisy(spread: float, seed: int = 0) -> Speeds:
    """Arms that are the same but for noise."""
    chance = random.Random(seed)
    return lambda _arm, _number: chance.gauss(0, spread)


def zigzag(arm: str, mean: float, half_width: float) -> Speeds:
    """One arm that is slower by `mean` and alternates around it, and others that do not vary."""
    return lambda name, number: (mean + half_width * (-1) ** (number + 1)) if name == arm else 0.0


def test_the_same_seed_gives_the_same_order() -> None:
    orders = []
    for _ in range(2):
        race = Race("abcd", baseline="a", seed=7)
        orders.append([visit(race, noisy(0.1)) for _ in range(6)])
    assert orders[0] == orders[1]


def test_another_seed_gives_another_order() -> None:
    assert (
        len(
            {
                tuple(visit(race, noisy(0.1)) for _ in range(3))
                for race in (Race("abcd", "a", seed=seed) for seed in range(5))
            }
        )
        == 5
    )


def test_each_round_has_an_order_of_its_own() -> None:
    race = Race("abcd", baseline="a", most_rounds=20)
    orders = {visit(race, noisy(1.0)) for _ in range(20)}
    assert len(orders) > 5
    assert {order[0] for order in orders} == set("abcd")


@given(
    seed=st.integers(0, 1000),
    gaps=st.lists(st.sampled_from([0.0, 0.005, 0.1, 1.0]), min_size=1, max_size=5),
)
def test_every_round_visits_each_survivor_exactly_once(seed: int, gaps: list[float]) -> None:
    arms = {f"arm{place}": gap for place, gap in enumerate(gaps)}
    race = Race(arms, baseline="arm0", seed=seed)
    noise = random.Random(seed)
    while not race.finished:
        survivors = set(arms) - set(race.verdict.eliminated)
        order = visit(race, lambda arm, _: arms[arm] + noise.gauss(0, 0.02))
        assert sorted(order) == sorted(survivors)


def test_an_eliminated_arm_is_not_visited_again() -> None:
    race = Race(["eager", "slow", "alike"], baseline="eager")
    noise = random.Random(0)

    def speeds(arm: str, number: int) -> float:
        del number
        return (1.0 if arm == "slow" else 0.0) + noise.gauss(0, 0.02)

    for _ in range(4):
        visit(race, speeds)
    assert race.verdict.eliminated == {"slow": 4}
    assert sorted(visit(race, speeds)) == ["alike", "eager"]


def test_nothing_is_decided_before_the_fourth_round() -> None:
    race = Race("ab", baseline="a")
    for _ in range(3):
        visit(race, clear(a=0.0, b=9.0))
    assert not race.finished
    assert race.verdict.eliminated == {}


def test_arms_that_are_always_visited_are_visited_when_eliminated() -> None:
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
def test_an_arm_that_only_is_always_visited_takes_no_part_in_the_decision(
    log_seconds: float,
) -> None:
    with_duplicate = Race("ab", baseline="a", always=["a", "twin"])
    assert sorted(with_duplicate.due) == ["a", "b", "twin"]
    verdict = drive(with_duplicate, clear(a=0.1, b=0.0, twin=log_seconds))
    assert verdict == drive(Race("ab", baseline="a", always=["a"]), clear(a=0.1, b=0.0))


@pytest.mark.parametrize("most_rounds", [1, 3, 4, 5, 17])
def test_a_race_that_stays_open_ends_at_the_cap(most_rounds: int) -> None:
    verdict = drive(Race("ab", baseline="a", most_rounds=most_rounds), noisy(1.0))
    assert verdict.kind == "INCONCLUSIVE"
    assert verdict.rounds == most_rounds


def test_proven_is_that_every_rival_is_slower() -> None:
    assert drive(Race("abc", baseline="a"), clear(a=0.5, b=0.0, c=0.2)) == Verdict(
        kind="PROVEN", best="b", tied=("b",), unresolved=(), rounds=4, eliminated={"a": 4, "c": 4}
    )


def test_a_lone_arm_is_proven() -> None:
    verdict = drive(Race(["only"], baseline="only"), clear(only=0.0))
    assert (verdict.kind, verdict.best, verdict.rounds) == ("PROVEN", "only", 4)


def test_tie_is_that_every_rival_is_slower_or_equivalent() -> None:
    verdict = drive(Race("abc", baseline="a"), clear(a=0.5, b=0.0, c=0.001))
    assert verdict == Verdict(
        kind="TIE", best="b", tied=("b", "c"), unresolved=(), rounds=4, eliminated={"a": 4}
    )


def test_safe_is_that_no_rival_can_be_faster_by_more_than_the_margin() -> None:
    race = Race("ab", baseline="a", settle_rounds=13)
    verdict = drive(race, zigzag("b", mean=0.01, half_width=0.019))
    assert verdict == Verdict(
        kind="SAFE", best="a", tied=("a",), unresolved=("b",), rounds=13, eliminated={}
    )
    ratio = race.ratio("b", to="a")
    assert 1 / 1.02 < ratio.low < 1
    assert ratio.high > 1.02


def test_a_safe_race_goes_on_until_it_has_settled() -> None:
    race = Race("ab", baseline="a", settle_rounds=19)
    assert drive(race, zigzag("b", mean=0.01, half_width=0.019)).rounds == 19


def test_inconclusive_is_that_a_rival_may_still_be_faster() -> None:
    race = Race("ab", baseline="a", most_rounds=9)
    verdict = drive(race, zigzag("b", mean=0.001, half_width=0.2))
    assert verdict == Verdict(
        kind="INCONCLUSIVE", best="a", tied=("a",), unresolved=("b",), rounds=9, eliminated={}
    )
    assert race.ratio("b", to="a").low < 1 / 1.02


def test_an_arm_that_is_merely_not_yet_eliminated_is_not_called_tied() -> None:
    assert Race("abc", baseline="b").verdict == Verdict(
        kind="INCONCLUSIVE", best="b", tied=("b",), unresolved=("a", "c"), rounds=0, eliminated={}
    )
    one_equivalent = Race("abc", baseline="a", most_rounds=4)
    verdict = drive(one_equivalent, zigzag("c", mean=0.01, half_width=0.05))
    assert (verdict.tied, verdict.unresolved) == (("a", "b"), ("c",))


def test_the_margin_decides_what_is_equivalent() -> None:
    kinds = [
        drive(Race("ab", baseline="a", epsilon=epsilon), clear(a=0.0, b=0.0)).kind
        for epsilon in (0.02, 1e-4)
    ]
    assert kinds == ["TIE", "INCONCLUSIVE"]


@given(st.lists(st.floats(-5, 5), min_size=40, max_size=40))
def test_what_slows_all_arms_of_a_round_alike_decides_nothing(drift: list[float]) -> None:
    def speeds(arm: str, number: int) -> float:
        return clear(eager=0.3, one=0.0, other=0.004)(arm, number)

    arms = ["eager", "one", "other"]
    steady = drive(Race(arms, baseline="eager"), speeds)
    assert (
        drive(
            Race(arms, baseline="eager"),
            lambda arm, number: speeds(arm, number) + drift[number - 1],
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


def test_a_withdrawn_arm_is_not_visited_again_and_not_in_the_verdict() -> None:
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


def test_a_round_is_complete_without_the_arm_that_was_withdrawn_in_it() -> None:
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


def test_arms_that_only_the_withdrawn_one_had_shown_slower_are_back() -> None:
    race = Race("abc", baseline="a")
    first = drive(race, clear(a=0.3, b=0.3, c=0.0))
    assert first.eliminated == {"a": 4, "b": 4}
    race.withdraw("c")
    assert not race.finished
    assert sorted(race.due) == ["a", "b"]
    assert sorted(drive(race, clear(a=0.3, b=0.3)).tied) == ["a", "b"]


def test_an_arm_that_another_one_had_shown_slower_stays_out() -> None:
    def speeds(arm: str, number: int) -> float:
        return 1.0 if arm == "b" else zigzag("c", mean=0.01, half_width=0.05)(arm, number)

    race = Race("abc", baseline="a")
    for _ in range(4):
        visit(race, speeds)
    assert (race.verdict.best, race.verdict.eliminated) == ("a", {"b": 4})
    race.withdraw("c")
    assert race.verdict.eliminated == {"b": 4}
    assert race.due == ("a",)


def test_withdrawing_an_arm_after_the_end_leaves_the_rest_as_it_was() -> None:
    race = Race("abc", baseline="a")
    drive(race, clear(a=0.3, b=0.0, c=0.5))
    race.withdraw("c")
    assert race.finished
    assert (race.verdict.kind, race.verdict.best, race.verdict.eliminated) == (
        "PROVEN",
        "b",
        {"a": 4},
    )


def test_a_revival_does_not_lift_the_cap() -> None:
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


def test_a_ratio_that_has_to_be_surer_is_wider() -> None:
    race = Race("ab", baseline="a", most_rounds=6)
    drive(race, noisy(0.1))
    narrow, wide = race.ratio("b", to="a", confidence=0.8), race.ratio("b", to="a", confidence=0.99)
    assert wide.value == narrow.value
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_ratio_of_an_arm_to_itself_is_one() -> None:
    race = Race("ab", baseline="a", most_rounds=4)
    drive(race, noisy(0.1))
    ratio = race.ratio("a", to="a")
    assert (ratio.value, ratio.low, ratio.high) == (1, 1, 1)


def test_a_ratio_before_the_second_round_has_no_bounds() -> None:
    race = Race("ab", baseline="a")
    visit(race, clear(a=0.0, b=1.0))
    ratio = race.ratio("b", to="a")
    assert (ratio.low, ratio.high) == (0.0, math.inf)


def test_a_ratio_counts_only_the_rounds_that_both_ran() -> None:
    race = Race("abc", baseline="a", always=["a"])
    noise = noisy(0.03, seed=1)

    def speeds(arm: str, number: int) -> float:
        later = 5.0 if number > 4 else 0.0
        return {"a": 0.0, "b": 1.0, "c": 0.0}[arm] + later + noise(arm, number)

    for _ in range(6):
        visit(race, speeds)
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
def test_a_race_that_cannot_be_run_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Race(**{"arms": "ab", "baseline": "a", **arguments})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_record_that_is_not_finite_is_refused_and_can_be_made_good(value: float) -> None:
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


def test_a_round_has_to_be_complete_before_the_next() -> None:
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
