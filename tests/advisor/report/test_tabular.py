"""Plain-text and Markdown tables."""

from __future__ import annotations

import pytest

from advisor.report.formatting import markdown_table, plain_table


@pytest.mark.parametrize(
    ("text_columns", "expected"),
    [
        (None, ["a    bbb", "ccc  d"]),
        ({0}, ["a    bbb", "ccc    d"]),
        ({1}, ["  a  bbb", "ccc  d"]),
    ],
)
def test_columns_are_aligned(text_columns: set[int] | None, expected: list[str]) -> None:
    assert plain_table([["a", "bbb"], ["ccc", "d"]], text_columns) == expected


def test_numbers_in_texts_keep_their_form() -> None:
    assert plain_table([["x", "1.50"], ["y", "1e3"]]) == ["x  1.50", "y  1e3"]


def test_every_row_is_one_line() -> None:
    assert plain_table([["a\nb", "c"], ["", ""], ["d", ""]]) == ["a b  c", "", "d"]


def test_a_markdown_table_has_a_line_that_aligns_its_columns() -> None:
    head, rule, row = markdown_table(["arm", "ms"], [["compiled", "1.50"]], {0})
    assert [cell.strip() for cell in head.split("|")[1:-1]] == ["arm", "ms"]
    left, right = rule.split("|")[1:-1]
    assert left.startswith(":-")
    assert right.endswith("-:")
    assert [cell.strip() for cell in row.split("|")[1:-1]] == ["compiled", "1.50"]


def test_a_markdown_table_without_rows_has_its_head() -> None:
    assert len(markdown_table(["a", "b"], [])) == 2
