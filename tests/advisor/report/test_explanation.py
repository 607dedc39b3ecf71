"""Explanations from raw figures to tiers and scores."""

from __future__ import annotations

import builders
import built_answers
import msgspec
import pytest
from golden_files import Expect

from advisor.domain.rubric import PublishedData
from advisor.errors import UnknownCriterionError, UnknownWorkflowError
from advisor.report import explanation

ANSWER = built_answers.answer()
PUBLISHED = builders.shipped_catalogue().published


@pytest.mark.parametrize(
    ("name", "arm", "criterion"),
    [
        ("recommended", "", ""),
        ("one-criterion", "compiled", "input-flexibility"),
        ("next-letter", builders.BASELINE, ""),
        ("unmeasured", "broken", ""),
    ],
)
def test_an_arm_is_explained_from_its_calls_to_its_score(
    name: str, arm: str, criterion: str, expect: Expect
) -> None:
    text = explanation.render(ANSWER, arm, criterion, PUBLISHED)
    expect(f"explanation-{name}", text.splitlines())


def test_published_figures_of_the_same_model_and_workflow_are_listed() -> None:
    figure = msgspec.structs.replace(
        PUBLISHED.figure[0], model=ANSWER.question.model.name, workflow="compiled"
    )
    text = explanation.render(
        ANSWER, "compiled", "performance", PublishedData(source="the paper", figure=(figure,))
    )
    assert f"{figure.gpu}, {figure.stack}, section {figure.section}" in text
    assert figure.differs_because in text


def test_published_figures_of_another_question_are_marked() -> None:
    name = ANSWER.question.model.name
    figure = msgspec.structs.replace(PUBLISHED.figure[0], model=name, workflow="compiled")
    conditions = next(iter(PUBLISHED.conditions.values()))
    same = msgspec.structs.replace(
        conditions,
        task=ANSWER.question.task,
        dtype=ANSWER.question.dtype,
        input_tokens=ANSWER.question.input_tokens,
        output_tokens=None,
    )
    longer = msgspec.structs.replace(same, input_tokens=same.input_tokens + 1)
    texts = [
        explanation.render(
            ANSWER,
            "compiled",
            "performance",
            PublishedData(source="the paper", figure=(figure,), conditions={name: each}),
        )
        for each in (same, longer)
    ]
    assert ["not comparable" in text for text in texts] == [False, True]
    assert f"{longer.input_tokens} input tokens (asked: {same.input_tokens})" in texts[1]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownWorkflowError) as unknown:
        explanation.render(ANSWER, "nonsense", "", PUBLISHED)
    # Arms without a measurement have nothing to explain but the reason.
    assert "compiled" in unknown.value.next_step
    assert "broken" not in unknown.value.next_step
    with pytest.raises(UnknownCriterionError):
        explanation.render(ANSWER, "", "speed", PUBLISHED)
    with pytest.raises(UnknownWorkflowError):
        explanation.render(msgspec.structs.replace(ANSWER, recommendation=None), "", "", PUBLISHED)
