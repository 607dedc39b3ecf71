"""The report as CSV."""

from __future__ import annotations

import csv
import io

import builders
import built_answers
import pytest
from report_runs import advice_of, with_results

from advisor.report.exports import csv_rows


def test_every_arm_and_batch_size_has_a_row() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_rows.render([built_answers.answer()]))))
    assert [(row["arm"], row["batch_size"], row["status"]) for row in rows] == [
        ("compiled", "1", "completed"),
        (builders.BASELINE, "1", "completed"),
        ("broken", "", "crashed"),
        ("absent", "", "not-installed"),
    ]
    assert float(rows[0]["speedup"]) == pytest.approx(4)
    assert tuple(rows[0]) == csv_rows.COLUMNS


@pytest.mark.parametrize(("noise_floor", "flag"), [(0.3, "0"), (4.0, "1")])
def test_every_row_has_the_decision_and_whether_its_figures_are_fit(
    noise_floor: float, flag: str
) -> None:
    made = with_results(built_answers.answer(), noise_floor=noise_floor)
    advice = advice_of(made)
    assert advice.certainty is not None
    text = csv_rows.render([made])
    for row in csv.DictReader(io.StringIO(text)):
        assert (row["decision"], row["trust"], row["machine_unfit"]) == (
            advice.certainty.decision_word,
            advice.trust,
            flag,
        )


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_texts_that_look_like_formulas_are_quoted(text: str) -> None:
    assert str(csv_rows.escape_formula(text)).startswith("'")


def test_negative_numbers_are_not_quoted() -> None:
    assert csv_rows.escape_formula(-1.5) == -1.5
