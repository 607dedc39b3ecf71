from __future__ import annotations

import builders
import pytest
from builders import NOISE, replace
from built_answers import run_answer, served_run, timed_cell, with_cells, with_costs, with_speedup

from advisor.decide.comparison import Comparison, compare_answers
from advisor.domain.answer import Answer
from advisor.report import comparison_text


def compare_two(
    before: Answer, after: Answer, threshold: float = 0.05
) -> tuple[Comparison, Answer, Answer]:
    """Return the comparison of two runs, which have one id, and both."""
    after = replace(after, run_id="20991231-000000-0000")
    return compare_answers(before, after, threshold, NOISE), before, after


def test_the_text_lists_differences_before_speeds() -> None:
    compared = compare_two(with_speedup(2.0), with_speedup(1.5, advisor_version="9.9<b>"))
    text = comparison_text.render(*compared)
    assert text.index("9.9") < text.index("slower")
    assert comparison_text.conclusion_lines(compared[0])[0] in text.splitlines()
    assert "9.9&lt;b&gt;" in comparison_text.render_markdown(compared[0])


def test_a_run_that_did_not_finish_is_marked() -> None:
    run = run_answer()
    text = comparison_text.render(*compare_two(run, replace(run, finished=False)))
    first, second, *_ = text.splitlines()
    assert first.startswith(f"before  {run.run_id}: Use ")
    assert second.endswith(f"{first.partition(': ')[2]} (not finished)")


def test_the_conclusion_names_threshold_drift_and_what_makes_runs_incomparable() -> None:
    same = compare_two(with_speedup(2.0, 1.001), with_speedup(2.0, 1.001), 0.025)
    assert "2.5 %" in comparison_text.conclusion_lines(same[0])[0]
    slower, _, _ = compare_two(
        with_cells(with_speedup(2.0, 1.001), builders.BASELINE, seconds=timed_cell(0.1).seconds),
        with_cells(with_speedup(2.0, 1.001), builders.BASELINE, seconds=timed_cell(0.2).seconds),
    )
    assert "0.50x" in comparison_text.conclusion_lines(slower)[1]
    other = run_answer(question=builders.question(dtype="float16"))
    first, *_ = comparison_text.conclusion_lines(compare_two(run_answer(), other)[0])
    assert first.startswith("No verdict")
    itself, run = compare_answers(other, other, 0.05, NOISE), other.run_id
    assert run in "".join(comparison_text.conclusion_lines(itself))


def test_costs_are_written_and_narrow_tables_leave_out_columns() -> None:
    before = with_speedup(2.0)
    compared = compare_two(before, with_costs(before))
    lines = comparison_text.conclusion_lines(compared[0])
    assert any("compiled" in line and "close" in line for line in lines)
    text = comparison_text.render(*compared)
    assert "2.0e-03" in text
    assert "build s after" in text
    assert "2.0e-03" in comparison_text.render_markdown(compared[0])
    narrow = comparison_text.render(*compared, 72).splitlines()
    tables = [line for line in narrow if line.startswith(("arm ", "baseline ", "compiled "))]
    assert max(map(len, tables)) <= 72
    assert "verdict" in tables[0]
    assert "detectable slowdown" not in tables[0]
    assert "detectable slowdown" in text


@pytest.mark.parametrize(("after", "verdict"), [(8.0, "slower"), (13.0, "faster")])
def test_servers_are_written_with_their_verdict(after: float, verdict: str) -> None:
    first, second = (served_run({"engine": each}, spread=1.02) for each in (10.0, after))
    compared = compare_two(first, second, 0.1)
    assert verdict in comparison_text.render(*compared)
    assert verdict in comparison_text.render_markdown(compared[0])
