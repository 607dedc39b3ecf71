"""Exports for other tools."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping

import builders
import built_answers
import junitparser
import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from report_runs import advice_of, with_measurement, with_results, with_score

from advisor.domain.answer import Answer
from advisor.errors import MissingExtraError
from advisor.report import answer_files, figures

HOSTILE = 'a"b\n<c>&{}\\,'


def three_arms() -> Answer:
    """Return an answer with a measured arm, a failed one and one that was not tried."""
    made = built_answers.answer()
    failed = builders.unmeasured("failed", status="crashed", reason=HOSTILE)
    absent = builders.unmeasured("absent", reason=HOSTILE)
    return msgspec.structs.replace(made, scores=made.scores[:1], unmeasured=(failed, absent))


def test_junit_has_a_case_for_each_arm() -> None:
    run = three_arms()
    (suite,) = junitparser.JUnitXml.fromstring(answer_files.to_junit(run))
    assert (suite.tests, suite.failures, suite.skipped) == (3, 1, 1)
    measured, failed, absent = suite
    assert measured.time == pytest.approx(run.ranked[0].cells[-1].seconds.median, abs=1e-3)
    assert measured.is_passed
    assert [result.type for result in (*failed.result, *absent.result)] == [
        "crashed",
        "not-installed",
    ]
    assert "<c>&" in failed.result[0].message


def samples(run: Answer) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    families = text_string_to_metric_families(answer_files.to_openmetrics(run).decode())
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in families
    }


def test_openmetrics_has_the_figures_of_measured_arms() -> None:
    run = three_arms()
    (cell,) = run.ranked[0].cells
    found = samples(run)
    ((labels, value),) = found["p3_advisor_call_seconds"]
    assert value == cell.seconds.median
    assert labels["batch_size"] == str(cell.shape)
    assert found["p3_advisor_speedup_ratio"][0][1] == cell.speedup.value
    assert {each["arm"] for each, _ in found["p3_advisor_call_seconds"]} == {"compiled"}


def test_a_hostile_name_stays_a_label() -> None:
    run = with_measurement(
        with_score(three_arms(), "compiled", arm=HOSTILE), "compiled", arm=HOSTILE
    )
    ((labels, _),) = samples(run)["p3_advisor_call_seconds"]
    assert labels["arm"] == HOSTILE


def test_a_missing_library_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError):
        answer_files.write("parquet", three_arms())


def test_every_arm_and_batch_size_has_a_row() -> None:
    rows = list(csv.DictReader(io.StringIO(answer_files.to_csv([built_answers.answer()]))))
    assert [(row["arm"], row["batch_size"], row["status"]) for row in rows] == [
        ("compiled", "1", "completed"),
        (builders.BASELINE, "1", "completed"),
        ("broken", "", "crashed"),
        ("absent", "", "not-installed"),
    ]
    assert float(rows[0]["speedup"]) == pytest.approx(4)
    assert tuple(rows[0]) == figures.COLUMNS


@pytest.mark.parametrize(("noise_floor", "flag"), [(0.3, "0"), (4.0, "1")])
def test_every_row_has_the_decision_and_whether_its_figures_are_fit(
    noise_floor: float, flag: str
) -> None:
    made = with_results(built_answers.answer(), noise_floor=noise_floor)
    advice = advice_of(made)
    assert advice.decision is not None
    text = answer_files.to_csv([made])
    for row in csv.DictReader(io.StringIO(text)):
        assert (row["decision"], row["trust"], row["machine_unfit"]) == (
            advice.decision.word,
            advice.trust,
            flag,
        )


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_texts_that_look_like_formulas_are_quoted(text: str) -> None:
    assert str(answer_files.escape_formula(text)).startswith("'")
    assert answer_files.escape_formula(-1.5) == -1.5, "a number is no text"
