"""Which guideline of the paper fits the question, and whether the measurement agrees."""

from __future__ import annotations

import builders
import pytest
from golden_files import Expect

from advisor.decide import guidelines
from advisor.domain.recommendation import GuidelineOpinion
from advisor.domain.rubric import DecisionTree

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
    chosen = guidelines.choose_guideline(SHIPPED.guidelines, asked)
    assert chosen is not None
    assert chosen.id == expected


def test_guidelines_and_figures_name_workflows_gpus_and_models_that_exist() -> None:
    workflows = {workflow.id for workflow in SHIPPED.workflows}
    assert {name for guideline in SHIPPED.guidelines for name in guideline.workflows} <= workflows
    assert {name for leaf in SHIPPED.tree.leaf.values() for name in leaf.workflows} <= workflows
    assert {figure.workflow for figure in SHIPPED.published.figure} <= workflows
    assert {figure.gpu for figure in SHIPPED.published.figure} <= set(SHIPPED.gpus)
    assert all(figure.low <= figure.high for figure in SHIPPED.published.figure)


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
    return guidelines.compare_with_guideline(
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


@pytest.mark.parametrize(
    ("preset", "task", "device", "says"),
    [
        ("serving", "generate", "cuda", ["vLLM or SGLang", "TensorRT-LLM"]),
        (
            "balanced",
            "generate",
            "cuda",
            ["vLLM or SGLang", "torch.compile first", "TensorRT or ONNX"],
        ),
        ("serving", "serve", "cuda", ["vLLM or SGLang"]),
        ("serving", "forward", "cuda", ["TensorRT"]),
        ("research", "forward", "cuda", ["torch.compile first", "TensorRT or ONNX"]),
        ("multi-vendor", "forward", "cpu", ["ONNX Runtime"]),
        ("balanced", "forward", "cpu", ["OpenVINO, XLA or Core ML"]),
    ],
)
def test_the_tree_leads_where_the_handbook_says(
    preset: str, task: str, device: str, says: list[str]
) -> None:
    asked = builders.question(
        task=task, device=device, priorities=SHIPPED.presets.priorities[preset].priorities
    )
    found = guidelines.follow_tree(SHIPPED.tree, asked)
    assert len(found) == len(says)
    for advice, words in zip(found, says, strict=True):
        assert words in advice.says
        assert advice.source == SHIPPED.tree.source


@pytest.mark.parametrize(("rival", "says"), [(1.7, "torch.compile first"), (1.9, "TensorRT or")])
def test_the_tree_asks_the_measurement_whether_torch_compile_suffices(
    rival: float, says: str
) -> None:
    scored = [
        builders.scored_arm("torch-compile-inductor/reduce-overhead", speedup=1.5),
        builders.scored_arm("tensorrt", speedup=rival),
    ]
    asked = builders.question(
        device="cuda", priorities=SHIPPED.presets.priorities["research"].priorities
    )
    (advice,) = guidelines.follow_tree(SHIPPED.tree, asked, scored)
    assert advice.says.startswith(says)


def test_the_path_through_the_tree_is_listed() -> None:
    first, second, third = guidelines.follow_tree(
        SHIPPED.tree, builders.question(task="generate", device="cuda")
    )
    assert [step.answer for step in third.steps] == [True, True, False, False, False]
    assert [step.answer for step in first.steps] == [True, True, True]
    assert [step.answer for step in second.steps] == [True, True, False, False, True]
    assert second.steps[0].question == SHIPPED.tree.node[SHIPPED.tree.first].asks


def test_without_a_tree_there_is_nothing_to_follow() -> None:
    assert guidelines.follow_tree(DecisionTree(), builders.question()) == ()
