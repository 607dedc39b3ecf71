from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide.race import LOOKS, Race, race_result
from advisor.domain.run_state import RaceGroup
from probes.events import Visited
from probes.shape import Shape

LogSeconds = Callable[[str, int], float]


def visit(race: Race, log_seconds: LogSeconds) -> tuple[str, ...]:
    """Drive one round and return the arms in the order of their visits."""
    number = race.rounds + 1
    order = race.next_round()
    for arm in order:
        race.record(arm, log_seconds(arm, number))
    return order


def drive(race: Race, log_seconds: LogSeconds, rounds: int = LOOKS[0]) -> Race:
    for _ in range(rounds):
        visit(race, log_seconds)
    return race


def clear(**log_seconds: float) -> LogSeconds:
    """Return times of arms whose differences are far above their noise."""
    return lambda arm, number: log_seconds[arm] + 1e-3 * math.sin(number * sum(arm.encode()))


def noisy(spread: float, seed: int = 0) -> LogSeconds:
    """Return times of arms that differ only by noise."""
    generator = random.Random(seed)
    return lambda _arm, _number: generator.gauss(0, spread)


def test_each_round_has_a_fresh_order() -> None:
    race = Race("abcd", baseline="a")
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
        survivors = set(arms) - set(race.eliminated)
        order = visit(race, lambda arm, _: arms[arm] + noise.gauss(0, 0.02))
        assert sorted(order) == sorted(survivors)


def test_slower_arms_are_eliminated_at_the_fourth_round_and_not_before() -> None:
    race, times = Race("abc", baseline="a"), clear(a=0.5, b=0.0, c=0.2)
    drive(race, times, 3)
    assert (race.eliminated, race.is_look) == ({}, False)
    visit(race, times)
    assert (race.best, race.eliminated, race.is_look) == ("b", {"a": 4, "c": 4}, True)
    assert race.due == ("b",)


def test_arms_that_do_not_differ_stay() -> None:
    assert drive(Race("ab", baseline="a"), clear(a=0.0, b=0.0), 40).eliminated == {}


def test_the_best_arm_is_rarely_eliminated() -> None:
    wrong = sum(
        "a" in drive(Race("abc", baseline="b", seed=seed), noisy(0.1, seed), 40).eliminated
        for seed in range(300)
    )
    # Three arms of equal speed: each of them is the best.
    assert wrong <= 0.05 * 300


def test_arms_in_always_are_visited_after_their_elimination() -> None:
    race = Race("abc", baseline="a", always=["a"])
    noise = noisy(0.03)
    drive(race, lambda arm, number: (1.0 if arm == "a" else 0.0) + noise(arm, number))
    assert race.eliminated == {"a": 4}
    assert sorted(visit(race, noise)) == ["a", "b", "c"]


@pytest.mark.parametrize("log_seconds", [-3.0, 0.0, 3.0])
def test_an_arm_only_in_always_takes_no_part_in_the_decision(log_seconds: float) -> None:
    race = Race("ab", baseline="a", always=["a", "twin"])
    assert sorted(race.due) == ["a", "b", "twin"]
    drive(race, clear(a=0.1, b=0.0, twin=log_seconds))
    assert (race.best, race.eliminated, race.arms) == ("b", {"a": 4}, ("a", "b"))


@pytest.mark.parametrize("most_rounds", [1, 3, 4, 5, 17])
def test_a_race_ends_at_most_rounds_with_a_look(most_rounds: int) -> None:
    race = Race("ab", baseline="a", most_rounds=most_rounds)
    while not race.finished:
        visit(race, noisy(1.0))
    assert (race.rounds, race.is_look) == (most_rounds, True)


@given(st.lists(st.floats(-5, 5), min_size=40, max_size=40))
def test_drift_of_whole_rounds_changes_nothing(drift: list[float]) -> None:
    times = clear(eager=0.3, one=0.0, other=0.004)
    steady, drifting = (
        drive(
            Race(["eager", "one", "other"], baseline="eager"),
            lambda arm, number, shifts=shifts: times(arm, number) + shifts[number - 1],  # type: ignore[misc]
            19,
        )
        for shifts in ([0.0] * 40, drift)
    )
    assert (drifting.best, drifting.eliminated) == (steady.best, steady.eliminated)


@pytest.mark.parametrize("arms", list(itertools.permutations(["eager", "one", "other"])))
def test_the_order_in_which_arms_are_named_does_not_matter(arms: Sequence[str]) -> None:
    race = drive(Race(arms, baseline="eager"), clear(eager=0.3, one=0.0, other=0.05))
    assert (race.best, race.eliminated) == ("one", {"eager": 4, "other": 4})


def test_a_round_is_complete_without_an_arm_withdrawn_in_it() -> None:
    race = Race("abc", baseline="a")
    race.next_round()
    race.record("a", 0.0)
    race.withdraw("c")
    assert race.rounds == 0
    race.record("b", 0.0)
    assert race.rounds == 1
    assert sorted(race.next_round()) == ["a", "b"]
    assert race.arms == ("a", "b")


def test_arms_eliminated_against_a_withdrawn_arm_return_and_others_do_not() -> None:
    race = drive(Race("abc", baseline="a"), clear(a=0.3, b=0.3, c=0.0))
    assert race.eliminated == {"a": 4, "b": 4}
    race.withdraw("c")
    assert sorted(race.due) == ["a", "b"]

    def log_seconds(arm: str, number: int) -> float:
        return {"a": 0.0, "b": 1.0, "c": 0.06 if number % 2 else -0.04}[arm]

    race = drive(Race("abc", baseline="a"), log_seconds)
    assert (race.best, race.eliminated) == ("a", {"b": 4})
    race.withdraw("c")
    assert race.eliminated == {"b": 4}


def test_log_ratios_are_those_of_the_surviving_arms_and_infinite_without_two_rounds() -> None:
    race = Race("abc", baseline="a", always=["twin"])
    seconds = clear(a=0.0, b=-0.1, c=0.1, twin=0.0)
    visit(race, seconds)
    assert {(each.low, each.high) for each in race.log_ratios().values()} == {(-math.inf, math.inf)}
    drive(race, seconds, 3)
    assert [*race.log_ratios()] == ["b"], "c was eliminated"
    assert race.log_ratios()["b"].high < 0


#: Seconds of each arm: `a` beats `b`, and `c` is between them.
SECONDS = {builders.BASELINE: 1.0, "a": 0.1, "b": 0.3, "c": 0.2}


@pytest.mark.parametrize(
    ("groups", "best", "eliminated"),
    [
        ([("a", "b")], "a", {builders.BASELINE: 4, "b": 4}),
        # The arms race again with one that was built later.
        ([("a", "b"), ("a", "b", "c")], "a", {builders.BASELINE: 8, "b": 8, "c": 8}),
        # The best arm has no place in the later group.
        ([("a", "b"), ("b", "c")], "a", {builders.BASELINE: 8, "b": 8}),
        ([("b", "c"), ("a",)], "a", {builders.BASELINE: 8, "b": 4}),
        ([("a",), ("b",)], "a", {builders.BASELINE: 8}),
        # Eliminated in the earlier group, the best of the later one.
        ([("a", "b"), ("b",)], "a", {builders.BASELINE: 8}),
    ],
)
def test_an_arm_counts_as_in_the_last_group_that_it_raced_in(
    groups: list[tuple[str, ...]], best: str, eliminated: dict[str, int]
) -> None:
    """Each group races four rounds, in turn, with the baseline."""
    visits: dict[str, list[Visited]] = {arm: [] for arm in SECONDS}
    made = []
    for index, arms in enumerate(groups):
        first_round = 4 * index + 1
        made.append(RaceGroup(arms=(builders.BASELINE, *arms), first_round=first_round))
        for arm in (builders.BASELINE, *arms):
            noise = (SECONDS[arm] * (1 + number / 1e4) for number in range(4))
            visits[arm] += builders.visits([*noise], first_round=first_round)
    state = builders.run_state({arm: builders.process(*visits[arm]) for arm in SECONDS})
    state = builders.replace(state, groups={Shape(1): tuple(made)})
    result = race_result(state, Shape(1), builders.question())
    assert (result.best, result.rounds) == (best, 4 * len(groups))
    assert result.eliminated == eliminated
