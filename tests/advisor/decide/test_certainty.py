"""How certain the advice is: decision words, contenders and regrets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import builders
import msgspec
import pytest
from builders import BASELINE
from built_measurements import measured, raced
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.decide import certainty, scoring
from advisor.decide.speedup_draws import draw_log_speedups, speedup_errors
from advisor.domain.constraints import Priorities
from advisor.domain.measurement import Interval, Measurement
from advisor.domain.recommendation import Decision
from advisor.domain.results import Results, ScoredArm
from advisor.domain.workflow import Workflow
from probes.wire.shape import Shape

QUIET, NOISY = 0.004, 0.3
RULE = builders.shipped_catalogue().rubric.decision


def results(*measurements: Measurement, noise: float = QUIET) -> Results:
    baseline = measured(BASELINE, *[1.0] * len(measurements[0].cells), spread=0.0)
    return raced(baseline, *measurements, noise_floor=noise)


def assess(
    found: Results,
    priorities: Priorities | None = None,
    *workflows: Workflow,
    seed: int = 0,
    **allowed: Any,
) -> tuple[ScoredArm, Decision]:
    """Assess the arms of these workflows, and of ordinary ones."""
    names = {entry.workflow for entry in found.measurements} - {BASELINE}
    others = names - {workflow.id for workflow in workflows}
    known = builders.catalogue(*workflows, *map(builders.workflow, sorted(others)))
    weights = priorities or builders.priorities()
    scored = scoring.score_arms(found, builders.question(priorities=weights), known)
    return certainty.assess(scored, scored, found, weights, known.rubric, seed=seed, **allowed)


def test_a_workflow_that_is_far_ahead_is_clear() -> None:
    advised, found = assess(results(measured("fast", 5.0), measured("slow", 1.1)))
    assert (found.word, advised.arm, [*found.contenders]) == (
        "CLEAR",
        "fast",
        ["fast"],
    )
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
    arms = [msgspec.structs.replace(each, workflow="same") for each in (one, two)]
    both = msgspec.structs.replace(results(*arms), measurements=tuple(arms))
    advised, found = assess(both, outstanding={"late": possible})
    assert (advised.arm, found.word) == ("same/two", word)
    assert found.needed_repetitions is None


def test_a_workflow_that_scores_a_little_more_but_is_slower_is_named_and_not_advised() -> None:
    slow = builders.workflow("slow", declared=builders.declared(vendors=1))
    known = builders.catalogue(slow, builders.workflow("fast"))
    both = results(measured("slow", 1.0, spread=0.002), measured("fast", 1.3, spread=0.002))
    asked = builders.question(priorities=builders.priorities(25, 25, 50))
    scored = scoring.score_arms(both, asked, known)
    (fast, slower) = (next(arm for arm in scored if arm.arm == name) for name in ("fast", "slow"))
    slower = msgspec.structs.replace(slower, score=fast.score + 0.06)
    advised = certainty.choose([slower, fast])
    assert (advised.arm, certainty.choose([slower]).arm) == ("fast", "slow")
    close = msgspec.structs.replace(fast, bonus=0.0)
    assert certainty.choose([slower, close]).arm == "slow"


@pytest.mark.parametrize(("spread", "word"), [(0.05, "CLEAR"), (0.6, "LIKELY"), (1.6, "OPEN")])
def test_the_word_follows_from_what_a_wrong_choice_may_cost(spread: float, word: str) -> None:
    arms = [measured(name, speed, spread=spread) for name, speed in (("one", 2.0), ("two", 2.1))]
    advised, found = assess(results(*arms))
    assert (found.word, advised.arm) == (word, "two")
    assert (found.certainty >= RULE.certain) == (word == "CLEAR")
    assert (found.needed_repetitions is None) == (word != "LIKELY")
    assert (found.lost_score > RULE.likely) == (word == "OPEN")


def test_the_lost_speed_is_the_gain_that_makes_up_for_the_lost_score() -> None:
    speed, spread = 2.0, 0.3
    advised, found = assess(results(measured("one", speed, spread=spread), measured("two", 1.99)))
    weight = builders.priorities().shares()["performance"]
    # From 1.5x on a doubling is worth one and a half letters.
    gain = 2 ** (found.lost_score / weight / 1.5) - 1
    assert found.lost_speed == pytest.approx(gain, rel=0.05)
    assert advised.arm == "one"
    _, without = assess(results(measured("one", 2.0)), builders.priorities(0, 50, 50))
    assert without.lost_speed is None


def test_several_arms_that_differ_by_chance_are_not_better_than_one_of_them() -> None:
    arms = [measured(f"same/{place}", 2.2, spread=0.9) for place in range(4)]
    same = [msgspec.structs.replace(each, workflow="same") for each in arms]
    steady = measured("steady", 2.2, spread=0.002)
    (_, alone), (_, together) = assess(results(steady, same[0])), assess(results(steady, *same))
    assert alone.word == together.word == "OPEN"
    assert together.contenders == pytest.approx(alone.contenders, abs=0.03)
    assert together.lost_score == pytest.approx(alone.lost_score, rel=0.1)


def test_servers_are_not_repeated_to_settle_the_decision() -> None:
    made = results(measured("one", 2.0), measured("two", 2.3))
    without_cells = tuple(
        msgspec.structs.replace(
            entry,
            cells=(),
            speedup=Interval(
                value=entry.speedup.value,
                low=entry.speedup.value / 1.5,
                high=entry.speedup.value * 1.5,
            ),
        )
        for entry in made.measurements
    )
    _, found = assess(msgspec.structs.replace(made, measurements=without_cells, races=()))
    assert found.word == "OPEN"
    assert found.needed_repetitions is None


def test_a_decision_with_much_noise_needs_more_repetitions_than_are_worth_making() -> None:
    (_, little), (_, much) = (
        assess(results(measured("one", 2.0, spread=spread), measured("two", 2.2, spread=spread)))
        for spread in (0.5, 6.0)
    )
    assert (little.word, little.needed_repetitions) == ("LIKELY", 2)
    assert much.word == "OPEN"
    assert much.needed_repetitions is None


def test_the_fastest_arm_is_named_with_how_much_faster_it_is() -> None:
    fast = msgspec.structs.replace(measured("fast", 4.0), workflow="fast")
    easy = results(fast, measured("easy", 2.0))
    hard = builders.declared(lines_changed=50, vendors=1, new_shapes="refused")
    advised, found = assess(
        easy, builders.priorities(10, 45, 45), builders.workflow("fast", declared=hard)
    )
    assert advised.arm == "easy"
    assert found.speed_regret.arm == "fast"
    assert found.speed_regret.value == pytest.approx(2.0)
    assert found.speed_regret.high >= found.speed_regret.value


def test_the_same_seed_gives_the_same_result() -> None:
    open_run = results(measured("one", 2.0, spread=0.3), measured("two", 2.3, spread=0.3))
    assert assess(open_run, seed=7) == assess(open_run, seed=7)
    assert abs(assess(open_run, seed=7)[1].certainty - assess(open_run, seed=8)[1].certainty) < 0.05


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.2, 10), min_size=1, max_size=5), st.sampled_from([0.01, 0.2]))
def test_shares_regrets_and_words_fit_together(speeds: Sequence[float], spread: float) -> None:
    arms = [measured(f"arm{place}", one, spread=spread) for place, one in enumerate(speeds)]
    advised, found = assess(results(*arms))
    assert 0 <= found.certainty <= 1
    assert found.lost_score >= 0
    assert found.speed_regret.high >= found.speed_regret.value >= 1
    assert (found.word == "CLEAR") == (found.certainty >= RULE.certain)
    assert next(iter(found.contenders)) == advised.workflow


def timed_twice(found: Results, *arms: str) -> Results:
    """Return the results with two processes of these arms, and one of each other."""
    entries = tuple(
        msgspec.structs.replace(
            entry,
            cells=tuple(
                msgspec.structs.replace(each, processes=1 + (entry.arm in arms))
                for each in entry.cells
            ),
        )
        for entry in found.measurements
    )
    return msgspec.structs.replace(found, measurements=entries)


def test_one_process_of_each_arm_is_not_clear() -> None:
    found = results(measured("fast", 5.0), measured("slow", 1.1))
    alone = timed_twice(found)
    _, made = assess(alone)
    assert (made.word, made.replicated, made.needed_repetitions) == ("LIKELY", False, 1)
    _, of_others = assess(alone, builders.priorities(0, 50, 50))
    assert of_others.word == "CLEAR"


@pytest.mark.parametrize(("repeated", "word"), [("next", "CLEAR"), ("slowest", "LIKELY")])
def test_where_only_the_baseline_may_lead_the_next_workflow_is_to_be_repeated(
    repeated: str, word: str
) -> None:
    found = results(measured("next", 0.7), measured("slowest", 0.4))
    advised, made = assess(timed_twice(found, BASELINE, repeated))
    assert (advised.arm, made.word, [*made.contenders]) == (BASELINE, word, [BASELINE])


@pytest.mark.parametrize(
    ("fit", "possible", "word"),
    [(True, 0.0, "CLEAR"), (False, 0.0, "LIKELY"), (True, 9.0, "LIKELY")],
    ids=["fit", "unfit", "outstanding"],
)
def test_the_word_claims_no_more_than_the_machine_and_the_time_allowed(
    fit: bool, possible: float, word: str
) -> None:
    found = results(measured("fast", 5.0), measured("slow", 1.1))
    _, made = assess(found, fit=fit, outstanding={"late": possible})
    assert (made.word, made.fit) == (word, fit)
    assert made.outstanding == (("late",) if possible else ())
    assert made.needed_repetitions is None


def test_where_two_estimates_contradict_each_other_either_is_as_likely() -> None:
    unknown = Interval(value=0.22, low=0.02, high=2.31)
    found = []
    for fastest_calls in (None, unknown):
        (cell,) = measured("busy", 0.22).cells
        busy = msgspec.structs.replace(cell, speedup=unknown, fastest_calls=fastest_calls)
        cells = (busy, msgspec.structs.replace(busy, shape=Shape(16)))
        entry = msgspec.structs.replace(measured("busy", 0.22), speedup=unknown, cells=cells)
        errors = speedup_errors(results(entry), ["busy"])
        logs = draw_log_speedups(errors, seed=0)
        found.append((logs > 0).mean())
        assert math.log(0.01) < logs.mean() < 0
    normal, either = found
    assert normal < 0.13
    assert abs(either - 0.5) < 0.03
