"""Explanations from raw figures to tiers and scores."""

from __future__ import annotations

import builders
import msgspec
import pytest

from advisor.domain.published import PublishedData
from advisor.domain.question import CRITERIA
from advisor.domain.rubric import LETTERS
from advisor.errors import UnknownCriterionError, UnknownWorkflowError
from advisor.report.sections import explanation

DOCUMENT = builders.document()
PUBLISHED = builders.shipped_catalogue().published


def test_the_recommended_arm_is_explained_from_calls_to_score() -> None:
    text = explanation.render(DOCUMENT, "", "", PUBLISHED)
    entry = DOCUMENT.workflows[0]
    assert text.startswith("compiled, run ")
    assert "batch size 1: median 100 ms of 12 timed calls, 4.000x (3.913 to 4.089)" in text
    assert "geometric mean over the batch sizes: 4.000x" in text
    assert "rule: speedup: A >= 1.2, B >= 1.05; decided by speedup = 4 (measured)" in text
    assert entry.scores is not None
    for name in CRITERIA:
        letter, grade = LETTERS[entry.scores[name].tier], entry.scores[name].graded
        assert f"  {name}: {letter}, grade {grade:.2f}, " in text
    assert f"= {entry.score:.3f}" in text


def test_one_criterion_is_explained_alone() -> None:
    text = explanation.render(DOCUMENT, "compiled", "input-flexibility", PUBLISHED)
    assert "  input_flexibility: A, grade 3.00" in text
    assert "  performance: " not in text
    assert "median" not in text


def test_the_requirement_of_the_next_letter_has_its_distance() -> None:
    assert "B requires speedup >= 1.05; it is 1, 0.05 away" in explanation.render(
        DOCUMENT, builders.BASELINE, "", PUBLISHED
    )


def test_an_arm_without_a_measurement_has_its_reason() -> None:
    assert (
        explanation.render(DOCUMENT, "broken", "", PUBLISHED)
        == "broken: crashed, it crashed\n  next: update it\n"
    )


def test_published_figures_of_the_same_model_and_workflow_are_listed() -> None:
    figure = msgspec.structs.replace(
        PUBLISHED.figure[0], model=DOCUMENT.question.model.name, workflow="compiled"
    )
    text = explanation.render(
        DOCUMENT, "compiled", "performance", PublishedData(source="the paper", figure=(figure,))
    )
    assert f"{figure.gpu}, {figure.stack}, section {figure.section}" in text
    assert figure.differs_because in text


def test_published_figures_of_another_question_are_marked() -> None:
    name = DOCUMENT.question.model.name
    figure = msgspec.structs.replace(PUBLISHED.figure[0], model=name, workflow="compiled")
    conditions = next(iter(PUBLISHED.conditions.values()))
    same = msgspec.structs.replace(
        conditions,
        task=DOCUMENT.question.task,
        dtype=DOCUMENT.question.dtype,
        input_tokens=DOCUMENT.question.input_tokens,
        output_tokens=None,
    )
    longer = msgspec.structs.replace(same, input_tokens=same.input_tokens + 1)
    texts = [
        explanation.render(
            DOCUMENT,
            "compiled",
            "performance",
            PublishedData(source="the paper", figure=(figure,), conditions={name: each}),
        )
        for each in (same, longer)
    ]
    assert ["not comparable" in text for text in texts] == [False, True]
    assert f"{longer.input_tokens} input tokens (asked: {same.input_tokens})" in texts[1]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownWorkflowError):
        explanation.render(DOCUMENT, "nonsense", "", PUBLISHED)
    with pytest.raises(UnknownCriterionError):
        explanation.render(DOCUMENT, "", "speed", PUBLISHED)
    with pytest.raises(UnknownWorkflowError):
        explanation.render(
            msgspec.structs.replace(DOCUMENT, recommendation=None), "", "", PUBLISHED
        )
