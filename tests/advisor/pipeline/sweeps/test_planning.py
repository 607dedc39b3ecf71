"""The order of a sweep's runs, their limits and their budget."""

from __future__ import annotations

import builders
import msgspec
import pytest
from builders import BASELINE
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.question import Budget
from advisor.domain.recommendation import (
    Certainty,
    DecisionWord,
    Recommendation,
    SpeedRegret,
)
from advisor.domain.run_events import RaceClosed, RaceOpened
from advisor.domain.sweep import Lengths
from advisor.pipeline.sweeps.planning import (
    LengthFinding,
    SweepStep,
    distance,
    find_neighbours,
    finding_of,
    limit_workflows,
    next_step,
    share_budget,
    spent_seconds,
)

OPEN = LengthFinding(contenders=("one", "two"))
CLEAR = LengthFinding(clear_workflow="one", contenders=("one", "two"))
OTHER = LengthFinding(clear_workflow="two", contenders=("two",))
BUDGET = Budget(
    name="standard", measuring_seconds=120, most_rounds=40, open_seconds=60, sustained_seconds=40
)


def at(input_tokens: int, output_tokens: int = 16) -> Lengths:
    return Lengths(input_tokens=input_tokens, output_tokens=output_tokens)


def advised(word: DecisionWord) -> Recommendation:
    return Recommendation(
        certainty=Certainty(
            decision_word=word,
            share=1.0,
            seed=0,
            chosen_for="score",
            contenders={"one": 1.0},
            as_good=(),
            lost_score=0.0,
            lost_speed=0.0,
            speed_regret=SpeedRegret(arm=None, value=1.0, high=1.0),
            needed_repetitions=None,
        ),
        arm="one/fast",
        workflow="one",
        verdict="PROVEN",
        trust="B",
        trust_reasons=(),
        runner_up="two/fast",
        margin=None,
        ties=(),
        flips=(),
        reasons=(),
        next_steps=(),
    )


def order(
    lengths: list[Lengths], answers: dict[Lengths, LengthFinding] | None = None
) -> list[SweepStep]:
    """Return all steps of a sweep whose runs have these answers, by default open ones."""
    found: dict[Lengths, LengthFinding] = {}
    steps = []
    while (step := next_step(lengths, found)) is not None:
        steps.append(step)
        found[step.lengths] = (answers or {}).get(step.lengths, OPEN)
    return steps


def test_the_extremes_come_first_then_the_largest_gap() -> None:
    lengths = [at(tokens) for tokens in (8, 16, 512, 32, 2048)]
    assert [step.lengths.input_tokens for step in order(lengths)] == [8, 2048, 32, 512, 16]


def test_pairs_begin_with_the_shortest_and_the_longest_pair() -> None:
    lengths = [at(one, two) for one in (32, 512) for two in (16, 128)]
    first, second, *others = (step.lengths for step in order(lengths))
    assert (first, second) == (at(32, 16), at(512, 128))
    assert len(others) == 2


def test_a_length_between_equal_clear_answers_is_limited_and_comes_last() -> None:
    lengths = [at(tokens) for tokens in (8, 16, 64, 4096)]
    answers = {at(8): CLEAR, at(64): CLEAR, at(4096): OTHER}
    steps = order(lengths, answers)
    assert [step.lengths.input_tokens for step in steps] == [8, 4096, 64, 16]
    assert steps[-1] == SweepStep(at(16), ("one", "two"), (at(8), at(64)))
    assert not any(step.limited_to for step in steps[:-1])


def test_a_small_gap_between_different_answers_comes_before_a_larger_one_between_equal() -> None:
    lengths = [at(tokens) for tokens in (8, 16, 32, 192, 256)]
    answers = {at(8): CLEAR, at(32): CLEAR, at(192): OTHER, at(256): OTHER}
    steps = order(lengths, answers)
    assert [step.lengths.input_tokens for step in steps] == [8, 256, 32, 192, 16]


@pytest.mark.parametrize(
    ("contenders", "limit"),
    [(("one", BASELINE), ("one",)), ((BASELINE,), (BASELINE,))],
)
def test_a_limit_names_the_baseline_only_if_nothing_else_contends(
    contenders: tuple[str, ...], limit: tuple[str, ...]
) -> None:
    end = LengthFinding(clear_workflow=contenders[0], contenders=contenders)
    (*_, last) = order([at(8), at(16), at(32)], {at(8): end, at(32): end})
    assert last.limited_to == limit


@pytest.mark.parametrize("end", [OPEN, OTHER])
def test_different_or_open_neighbours_limit_nothing(end: LengthFinding) -> None:
    steps = order([at(8), at(16), at(32)], {at(8): CLEAR, at(32): end})
    assert steps[-1] == SweepStep(at(16))


def test_neighbours_are_shorter_and_longer_in_both_lengths() -> None:
    assert find_neighbours(at(32, 128), [at(64, 16), at(512, 64)]) == ()
    known = [at(8, 8), at(32, 16), at(64, 128), at(512, 512)]
    assert find_neighbours(at(32, 128), known) == (at(32, 16), at(64, 128))


@given(st.sets(st.integers(1, 4096), min_size=2, max_size=8))
def test_every_length_is_measured_once(tokens: set[int]) -> None:
    steps = order([at(each) for each in tokens])
    assert sorted(step.lengths.input_tokens for step in steps) == sorted(tokens)
    assert {steps[0].lengths, steps[1].lengths} == {at(min(tokens)), at(max(tokens))}


def test_the_distance_is_that_of_factors() -> None:
    assert distance(at(8), at(32)) == pytest.approx(distance(at(512), at(2048)))


def test_the_runner_up_stays_a_rival() -> None:
    assert finding_of(advised("CLEAR")) == CLEAR
    assert finding_of(advised("OPEN")) == OPEN
    assert finding_of(None) == LengthFinding()


def test_a_limit_keeps_the_arms_that_the_user_named() -> None:
    assert limit_workflows(("one/fast", "three"), ("one", "two")) == ("one/fast",)
    assert limit_workflows((), ("one", "two")) == ("one", "two")
    assert limit_workflows(("three",), ()) == ("three",)


def test_the_runs_share_the_budget_and_hand_on_what_is_left() -> None:
    first = share_budget(BUDGET, 0, runs_left=3)
    assert (first.measuring_seconds, first.open_seconds) == pytest.approx((40, 20))
    assert first.sustained_seconds == pytest.approx(40 / 3)
    assert first.most_rounds == BUDGET.most_rounds
    assert share_budget(BUDGET, 10, runs_left=2).measuring_seconds == pytest.approx(55)


def test_the_time_of_races_is_spent_up_to_the_budget() -> None:
    events = builders.events(
        RaceOpened(batch_size=1, arms=("one",)),
        RaceOpened(batch_size=4, arms=("one",)),
        RaceClosed(batch_size=1, reason="", cause="decided"),
        RaceClosed(batch_size=4, reason="", cause="decided"),
        RaceOpened(batch_size=1, arms=("one", "two")),
        RaceClosed(batch_size=1, reason="", cause="decided"),
    )
    assert spent_seconds(events, BUDGET) == 2 + 2 + 1
    short = msgspec.structs.replace(BUDGET, measuring_seconds=3)
    assert spent_seconds(events, short) == 3
