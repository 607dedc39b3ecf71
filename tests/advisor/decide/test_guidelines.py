"""Which guideline of the paper fits the question, and whether the measurement agrees."""

from __future__ import annotations

import builders
import pytest
from golden_files import Expect

from advisor.decide.recommend import choose_guideline, compare_with_guideline
from advisor.domain.recommendation import GuidelineOpinion

SHIPPED = builders.shipped_catalogue()


@pytest.mark.parametrize(
    ("preset", "task", "device", "expected"),
    [
        ("research", "generate", "cuda", "research"),
        ("serving", "generate", "cuda", "production"),
        ("multi-vendor", "generate", "cuda", "device-portability"),
        ("serving", "forward", "cuda", "latency"),
        ("serving", "forward", "cpu", "not-on-nvidia"),
        ("balanced", "generate", "cuda", "paged-attention"),
        ("balanced", "forward", "cpu", "not-on-nvidia"),
        ("balanced", "forward", "cuda", "compile-first"),
    ],
)
def test_each_deployment_has_its_guideline(
    preset: str, task: str, device: str, expected: str
) -> None:
    asked = builders.question(
        task=task, device=device, priorities=SHIPPED.presets.priorities[preset].priorities
    )
    chosen = builders.known(choose_guideline(SHIPPED.guidelines, asked))
    assert chosen.id == expected


def test_guidelines_name_workflows_that_exist() -> None:
    workflows = {workflow.id for workflow in SHIPPED.workflows}
    assert {name for guideline in SHIPPED.guidelines for name in guideline.workflows} <= workflows


def opinion(
    winner: str,
    *others: str,
    tiers: tuple[int, ...] = (1, 2, 2, 2, 2),
    as_good: tuple[str, ...] = (),
) -> GuidelineOpinion:
    research = next(guideline for guideline in SHIPPED.guidelines if guideline.id == "research")
    scored = [
        builders.scored_arm(winner),
        *(builders.scored_arm(name, tiers=tiers) for name in others),
    ]
    left_out = [builders.unmeasured("torch-compile-inductor", reason="it is broken")]
    return compare_with_guideline(
        research,
        scored[0],
        scored,
        left_out,
        as_good=as_good,
    )


def test_the_answer_that_the_guideline_names_agrees() -> None:
    assert opinion("torch-compile-inductor/max-autotune").agrees is True


def test_a_workflow_that_is_about_as_good_and_that_the_guideline_names_does_not_disagree() -> None:
    found = opinion("other", "torch-compile-inductor", as_good=("torch-compile-inductor",))
    assert found.agrees is None
    assert found.why.startswith("torch-compile-inductor,")


def test_another_answer_says_in_what_the_named_one_is_behind(expect: Expect) -> None:
    found = opinion("other", "torch-compile-inductor")
    assert found.agrees is False
    expect("guideline-behind", found.why)


def test_with_the_same_tiers_the_speeds_are_told(expect: Expect) -> None:
    found = opinion("other", "torch-compile-inductor", tiers=(2,) * 5)
    expect("guideline-same-tiers", found.why)


def test_without_a_measurement_of_what_it_names_nothing_is_claimed(expect: Expect) -> None:
    found = opinion("other")
    assert found.agrees is None
    expect("guideline-unmeasured", found.why)
