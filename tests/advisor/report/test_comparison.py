"""Comparisons of two runs."""

from __future__ import annotations

import json

import builders
import msgspec
import pytest
from report_runs import cell, run_document

from advisor.domain.measurement import Interval
from advisor.domain.question import Question
from advisor.report import comparison, comparison_text, document
from advisor.report.comparison import Change, Comparison, compare_documents
from advisor.report.document import RunDocument


def change(before: RunDocument, after: RunDocument, threshold: float = 0.05) -> Change:
    changes = compare_documents(before, after, threshold).changes
    return next(each for each in changes if each.arm == "compiled")


@pytest.mark.parametrize(
    ("factor", "spread", "verdict"),
    [
        (1.0, 1.01, "same"),
        (1.2, 1.01, "slower"),
        (0.8, 1.01, "faster"),
        (1.2, 1.2, "not told apart"),
        (1.03, 1.01, "same"),
    ],
)
def test_the_interval_decides_the_verdict(factor: float, spread: float, verdict: str) -> None:
    found = change(run_document(0.1, spread), run_document(0.1 * factor, spread))
    assert found.verdict == verdict
    assert found.speed.value == pytest.approx(1 / factor)


def test_the_noise_floor_widens_the_interval() -> None:
    quiet, loud = run_document(), run_document()
    assert loud.race is not None
    loud = msgspec.structs.replace(loud, race=msgspec.structs.replace(loud.race, noise_floor=0.5))
    assert change(quiet, run_document(0.12)).verdict == "slower"
    assert change(loud, run_document(0.12)).verdict == "not told apart"


def test_a_median_without_an_interval_gives_no_verdict() -> None:
    unbounded = cell(0.3)
    unbounded = msgspec.structs.replace(
        unbounded, seconds=msgspec.structs.replace(unbounded.seconds, low=None)
    )
    speed = comparison.speed_ratio(cell(0.1), unbounded, 0.0)
    assert comparison.classify_speed(speed, 0.05) == "not told apart"


@pytest.mark.parametrize(
    "question",
    [
        builders.question(dtype="float16"),
        builders.question(batch_sizes=(1, 2)),
        builders.question(input_tokens=7),
    ],
)
def test_another_question_makes_speeds_incomparable(question: Question) -> None:
    found = compare_documents(run_document(), run_document(0.2, question=question), 0.05)
    assert not found.comparable
    assert found.changes == ()
    assert found.differences[0].decisive
    assert comparison_text.conclusion(found)[0].startswith("No verdict")


def test_another_version_of_the_advisor_is_comparable() -> None:
    assert compare_documents(
        run_document(), run_document(0.2, advisor_version="9"), 0.05
    ).comparable


def test_an_unfinished_run_is_compared_with_its_missing_batch_sizes() -> None:
    question = builders.question(batch_sizes=(1, 16))
    before = run_document(question=question)
    assert before.race is not None
    races = builders.race_result(1), builders.race_result(16)
    finished = msgspec.structs.replace(
        before, race=msgspec.structs.replace(before.race, by_batch_size=races)
    )
    found = compare_documents(finished, run_document(question=question, finished=False), 0.05)
    assert found.comparable
    assert [(each.what, each.before, each.after) for each in found.differences] == [
        ("run", "finished", "not finished"),
        ("measured batch sizes", "1, 16", "1"),
    ]
    assert found.headlines[1] == f"{found.headlines[0]} (not finished)"


def test_the_text_lists_differences_before_speeds() -> None:
    found = compare_documents(run_document(), run_document(0.2, advisor_version="9.9"), 0.05)
    text = comparison_text.render(found)
    assert text.index("9.9") < text.index("slower")
    assert comparison_text.conclusion(found)[0] in text.splitlines()
    assert "9.9" in comparison_text.render_markdown(found).replace("\\", "")


def test_the_json_has_the_encoded_names() -> None:
    found = compare_documents(run_document(), run_document(0.2, advisor_version="9.9"), 0.05)
    encoded = json.loads(document.encode(found))
    assert encoded["schema"] == comparison.SCHEMA
    assert {each["arm"]: each["judgement"] for each in encoded["changes"]}["compiled"] == "slower"
    assert msgspec.convert(encoded, Comparison) == found


def with_speedup(document: RunDocument, factor: float) -> RunDocument:
    """Return the run with a slower baseline: speed-ups grow although `compiled` is unchanged."""
    entries = [
        msgspec.structs.replace(
            entry, cells=(cell(speedup=Interval(value=2.0 * factor, low=None, high=None)),)
        )
        if entry.arm == "compiled"
        else msgspec.structs.replace(
            entry, cells=(cell(0.1 * factor, speedup=Interval(value=1.0, low=1.0, high=1.0)),)
        )
        for entry in document.workflows
        if entry.cells
    ]
    return msgspec.structs.replace(document, workflows=tuple(entries))


def test_a_slower_machine_is_reported_if_all_speedups_are_unchanged() -> None:
    found = compare_documents(run_document(), run_document(0.2), 0.05)
    assert [each.arm for each in found.regressions] == ["compiled"]
    assert "the machine has changed" in comparison_text.conclusion(found)[1]


def test_a_slower_baseline_alone_is_not_reported_as_a_slower_machine() -> None:
    found = compare_documents(
        with_speedup(run_document(), 1.0), with_speedup(run_document(), 1.4), 0.05
    )
    assert [(each.arm, each.batch_size) for each in found.regressions] == [(builders.BASELINE, 1)]
    assert len(comparison_text.conclusion(found)) == 1


def test_the_conclusion_names_the_threshold() -> None:
    found = compare_documents(run_document(), run_document(), 0.025)
    (line,) = comparison_text.conclusion(found)
    assert "2.5%" in line
