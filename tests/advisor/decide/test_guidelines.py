"""Which guideline of the paper fits the question, and whether the measurement agrees."""

from __future__ import annotations

import builders
import pytest

from advisor.decide.recommend import agrees_with, choose_guideline

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


@pytest.mark.parametrize(
    ("advised", "as_good", "measured", "agrees"),
    [
        ("torch-compile-inductor/max-autotune", (), (), True),
        ("other", ("torch-compile-inductor",), ("torch-compile-inductor",), None),
        ("other", (), ("torch-compile-inductor",), False),
        ("other", (), ("another",), None),
    ],
    ids=["names the answer", "names what is as good", "names another", "names nothing measured"],
)
def test_the_measurement_agrees_with_a_guideline_or_not(
    advised: str, as_good: tuple[str, ...], measured: tuple[str, ...], *, agrees: bool | None
) -> None:
    research = next(each for each in SHIPPED.guidelines if each.id == "research")
    assert agrees_with(research, advised, as_good, measured) is agrees
