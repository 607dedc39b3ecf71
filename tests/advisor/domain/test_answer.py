"""The answer of a run: its JSON, its arms, and its summary."""

from __future__ import annotations

import builders
import built_answers
from builders import BASELINE
from report_runs import advice_of, with_advice, without_advice, without_measurements

from advisor.domain.answer import AnswerSummary, Problem
from advisor.domain.measurement import Interval

PROBLEM = Problem(name="nothing-viable", what="everything failed", next_step="ask for less")


def test_arms_are_sorted_by_rank_and_those_without_a_measurement_are_apart() -> None:
    made = built_answers.answer()
    assert [(arm.arm, arm.scored.rank) for arm in made.ranked] == [("compiled", 1), (BASELINE, 2)]
    assert [(each.arm, each.status) for each in made.unmeasured] == [
        ("broken", "crashed"),
        ("absent", "not-installed"),
    ]
    assert set(made.titles) == {"compiled", BASELINE, "broken", "absent"}


def test_the_advised_arm_and_the_baseline_have_their_figures() -> None:
    made = built_answers.answer()
    assert made.advised is not None
    assert made.advised.measured is made.measurements["compiled"]
    assert made.advised.speedup == made.measurements["compiled"].speedup
    assert made.baseline is made.measurements[BASELINE]
    assert without_advice(made, PROBLEM).advised is None
    assert with_advice(made, arm="gone").advised is None


def test_an_arm_without_a_measurement_has_a_speed_up_without_an_interval() -> None:
    first, *_ = without_measurements(built_answers.answer()).ranked
    assert (first.measured, first.versions, first.cells) == (None, {}, ())
    assert first.speedup == Interval(value=first.scored.speedup, low=None, high=None)


def test_the_device_is_the_gpu_that_was_measured() -> None:
    two = (
        builders.gpu(uuid="GPU-a", name="NVIDIA A100"),
        builders.gpu(uuid="GPU-b", name="NVIDIA H200"),
    )
    made = built_answers.answer(
        question=builders.question(device="cuda", gpu="GPU-b"), machine=builders.gpu_machine(*two)
    )
    assert made.device_name == "NVIDIA H200"


def test_a_summary_has_the_decision_or_the_problem() -> None:
    made = built_answers.answer()
    advice = advice_of(made)
    assert advice.certainty is not None
    assert AnswerSummary.of(made) == AnswerSummary(
        arm="compiled",
        decision_word=advice.certainty.decision_word,
        certainty=advice.certainty.share,
        trust=advice.trust,
        speedup=made.measurements["compiled"].speedup,
        headline=made.headline[0].text,
    )
    found = AnswerSummary.of(without_advice(made, PROBLEM))
    assert (found.arm, found.problem) == (None, PROBLEM)
    assert PROBLEM.what in found.headline
