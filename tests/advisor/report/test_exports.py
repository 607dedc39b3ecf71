"""Tables of all figures, as CSV and Parquet."""

from __future__ import annotations

import csv
import io
import sys

import builders
import built_answers
import pytest
from built_answers import advice_of, with_results

from advisor.errors import MissingExtraError
from advisor.report import answer_files, figures


def test_a_missing_library_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError):
        answer_files.write("parquet", built_answers.answer())


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
    text = answer_files.to_csv([made])
    for row in csv.DictReader(io.StringIO(text)):
        assert (row["decision"], row["trust"], row["machine_unfit"]) == (
            builders.known(advice.decision).word,
            advice.trust,
            flag,
        )


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_texts_that_look_like_formulas_are_quoted(text: str) -> None:
    assert str(answer_files.escape_formula(text)).startswith("'")
    assert answer_files.escape_formula(-1.5) == -1.5, "a number is no text"
