from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import builders
import pytest
from builders import BASELINE, replace
from built_answers import header_for
from built_measurements import against_baseline, interval, measured
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.decide import certainty, scoring
from advisor.decide.speedup_draws import draw_log_speedups, speedup_errors
from advisor.domain.constraints import Priorities
from advisor.domain.measurement import Interval, VisitCounts
from advisor.domain.recommendation import Decision
from advisor.domain.results import Results, ScoredArm
from advisor.domain.rubric import Rubric
from advisor.domain.workflow import Workflow
from probes.shape import Shape

RULE = builders.shipped_catalogue().rubric.decision


def assess(
    found: Results,
    priorities: Priorities | None = None,
    *workflows: Workflow,
    rubric: Rubric | None = None,
    **allowed: Any,
) -> tuple[ScoredArm, Decision]:
    """Assess the arms of these workflows, and of ordinary ones."""
    known = header_for(found, *workflows).catalogue
    known = replace(known, rubric=rubric or known.rubric)
    question = builders.question(priorities=priorities or builders.priorities())
    scored = scoring.score_arms(found, question, known)
    contest = certainty.Contest(found, scored, question, known)
    return contest.advised, certainty.judge_certainty(contest, **allowed)


def test_a_workflow_that_is_far_ahead_is_clear() -> None:
    advised, found = assess(against_baseline(measured("fast", 5.0), measured("slow", 1.1)))
    assert (found.word, advised.arm, [*found.contenders]) == ("CLEAR", "fast", ["fast"])
    assert found.certainty > 0.999
    assert found.speed_regret.arm is None
    assert found.speed_regret.value == 1.0
    assert (found.lost_score, found.lost_speed, found.as_good) == (0.0, 0.0, ())
    assert found.chosen_for == "score"


@pytest.mark.parametrize(("possible", "word"), [(0.0, None), (9.0, "LIKELY")])
def test_nothing_is_decided_without_a_second_workflow_that_may_lead(
    possible: float, word: str | None
) -> None:
    one, two = measured("same/one", 2.0, spread=0.9), measured("same/two", 2.1, spread=0.9)
    arms = [replace(each, workflow="same") for each in (one, two)]
    both = replace(against_baseline(*arms), measurements=tuple(arms))
    advised, found = assess(both, outstanding={"late": possible})
    assert (advised.arm, found.word) == ("same/two", word)
    assert found.needed_repetitions is None


def test_an_arm_that_is_alone_has_no_word() -> None:
    _, found = assess(against_baseline(), outstanding={"late": 9.0})
    assert (found.word, found.certain, found.outstanding) == (None, False, ("late",))


@pytest.mark.parametrize(
    ("spread", "word", "repetitions"),
    [(0.05, "CLEAR", None), (0.6, "LIKELY", 8), (1.6, "OPEN", None)],
)
def test_the_word_follows_from_what_a_wrong_choice_may_cost(
    spread: float, word: str, repetitions: int | None
) -> None:
    """With much noise, more repetitions would be needed than are worth making."""
    arms = [measured(name, speed, spread=spread) for name, speed in (("one", 2.0), ("two", 2.1))]
    advised, found = assess(against_baseline(*arms))
    assert (found.word, advised.arm) == (word, "two")
    assert (found.certainty >= RULE.clear_share) == (word == "CLEAR")
    assert found.needed_repetitions == repetitions
    assert (found.lost_score > RULE.likely_loss) == (word == "OPEN")


def test_the_lost_speed_is_the_gain_that_makes_up_for_the_lost_score() -> None:
    arms = (measured("one", 2.0, spread=0.3), measured("two", 1.99))
    advised, found = assess(against_baseline(*arms))
    weight = builders.priorities().shares()["performance"]
    # From 1.5x on a doubling is worth one and a half letters.
    gain = 2 ** (found.lost_score / weight / 1.5) - 1
    assert found.lost_speed == pytest.approx(gain, rel=0.05)
    assert advised.arm == "one"
    _, without = assess(against_baseline(measured("one", 2.0)), builders.priorities(0, 50, 50))
    assert without.lost_speed is None


@pytest.mark.parametrize(("between", "lost"), [("log", 0.248), ("linear", 0.248), ("step", 0.0)])
def test_the_lost_speed_follows_the_rule_of_the_rubric(between: str, lost: float) -> None:
    """Where the arms differ in speed alone it is a rival's lead, whatever a lead is worth."""
    rubric = builders.shipped_catalogue().rubric
    performance, *others = rubric.criteria
    rule = replace(performance.grades[0], between=between, knots=((1.0, 1.0), (3.0, 3.0)))
    own = replace(rubric, criteria=(replace(performance, grades=(rule,)), *others))
    both = against_baseline(measured("one", 5.0, spread=0.3), measured("two", 5.0))
    _, found = assess(both, rubric=own)
    assert found.lost_speed == pytest.approx(lost, abs=0.001)


def test_no_more_speed_can_be_lost_than_the_intervals_allow() -> None:
    longer = builders.workflow("longer", declared=builders.declared(lines_changed=6))
    arms = (measured("short", 1.0, spread=0.002), measured("longer", 1.5, spread=0.002))
    advised, found = assess(against_baseline(*arms), builders.priorities(38, 62, 0), longer)
    assert (advised.arm, found.lost_speed) == ("longer", None)
    assert found.lost_score > 0.03
    close = [measured(f"arm{place}", 1.02, spread=0.05) for place in range(12)]
    advised, found = assess(against_baseline(*close), builders.priorities(10, 80, 10))
    assert advised.arm == BASELINE
    assert found.speed_regret.high == pytest.approx(close[0].speedup.high, abs=1e-3)


def test_several_arms_that_differ_by_chance_are_not_better_than_one_of_them() -> None:
    arms = [measured(f"same/{place}", 2.2, spread=0.9) for place in range(4)]
    same = [replace(each, workflow="same") for each in arms]
    steady = measured("steady", 2.2, spread=0.002)
    (_, alone), (_, together) = (
        assess(against_baseline(steady, *others)) for others in (same[:1], same)
    )
    assert alone.word == together.word == "OPEN"
    assert together.contenders == pytest.approx(alone.contenders, abs=0.03)
    assert together.lost_score == pytest.approx(alone.lost_score, rel=0.1)


def test_servers_are_not_repeated_to_settle_the_decision() -> None:
    made = against_baseline(measured("one", 2.0), measured("two", 2.3))
    without_cells = tuple(
        replace(entry, cells=(), speedup=interval(entry.speedup.value, 0.5))
        for entry in made.measurements
    )
    _, found = assess(replace(made, measurements=without_cells, races=()))
    assert found.word == "OPEN"
    assert found.needed_repetitions is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.2, 10), min_size=1, max_size=5), st.sampled_from([0.01, 0.2]))
def test_shares_regrets_and_words_fit_together(speeds: Sequence[float], spread: float) -> None:
    arms = [measured(f"arm{place}", one, spread=spread) for place, one in enumerate(speeds)]
    advised, found = assess(against_baseline(*arms))
    assert 0 <= found.certainty <= 1
    assert found.lost_score >= 0
    assert found.speed_regret.high >= found.speed_regret.value >= 1
    assert (found.word == "CLEAR") == (found.certainty >= RULE.clear_share)
    assert next(iter(found.contenders)) == advised.workflow


def timed_twice(found: Results, *arms: str) -> Results:
    """Return the results with two processes of these arms, and one of each other."""
    entries = tuple(
        replace(
            entry,
            cells=tuple(replace(each, processes=1 + (entry.arm in arms)) for each in entry.cells),
        )
        for entry in found.measurements
    )
    return replace(found, measurements=entries)


def test_one_process_of_each_arm_is_not_clear() -> None:
    alone = timed_twice(against_baseline(measured("fast", 5.0), measured("slow", 1.1)))
    _, made = assess(alone)
    assert (made.word, made.timed_once, made.needed_repetitions) == ("LIKELY", ("fast",), 1)
    _, of_others = assess(alone, builders.priorities(0, 50, 50))
    assert of_others.word == "CLEAR"


@pytest.mark.parametrize(("repeated", "word"), [((BASELINE,), "CLEAR"), (("next",), "LIKELY")])
def test_where_the_baseline_alone_may_lead_no_other_arm_is_to_be_repeated(
    repeated: tuple[str, ...], word: str
) -> None:
    advised, made = assess(timed_twice(against_baseline(measured("next", 0.7)), *repeated))
    assert (advised.arm, made.word, [*made.contenders]) == (BASELINE, word, [BASELINE])


@pytest.mark.parametrize(
    ("fit", "possible", "word"),
    [(True, 0.0, "CLEAR"), (False, 0.0, "LIKELY"), (True, 9.0, "LIKELY")],
    ids=["fit", "unfit", "outstanding"],
)
def test_the_word_claims_no_more_than_the_machine_and_the_time_allowed(
    fit: bool, possible: float, word: str
) -> None:
    visits = VisitCounts(made=10, discarded=0, unfit=0 if fit else 9)
    found = against_baseline(measured("fast", 5.0), measured("slow", 1.1), visits=visits)
    _, made = assess(found, outstanding={"late": possible})
    assert (made.word, made.fit) == (word, fit)
    assert made.outstanding == (("late",) if possible else ())
    assert made.needed_repetitions is None


def test_where_two_estimates_contradict_each_other_either_is_as_likely() -> None:
    unknown = Interval(value=0.22, low=0.02, high=2.31)
    found = []
    for fastest_calls in (None, unknown):
        (cell,) = measured("busy", 0.22).cells
        busy = replace(cell, speedup=unknown, fastest_calls=fastest_calls)
        cells = (busy, replace(busy, shape=Shape(16)))
        entry = replace(measured("busy", 0.22), speedup=unknown, cells=cells)
        logs = draw_log_speedups(speedup_errors(against_baseline(entry), ["busy"]), seed=0)
        found.append((logs > 0).mean())
        assert math.log(0.01) < logs.mean() < 0
    normal, either = found
    assert normal < 0.13
    assert abs(either - 0.5) < 0.03
