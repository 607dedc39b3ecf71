"""Every table has a cell for each head, and CSV has the figures of the ranking."""

from __future__ import annotations

import csv
import io
import pathlib
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

import html5lib
import pytest
import tabulate

from advisor.domain.answer import Answer
from advisor.report import markdown, opening, page, text_report
from advisor.report.exports import csv_rows
from advisor.report.sections.ranking_cells import COST_HEADS, CRITERION_HEADS, ranking_rows

EVIDENCE = pathlib.Path(__file__).parents[2] / "stacks" / "evidence"
#: Runs of one forward pass, of generated text, with quantised weights, and of servers.
FILES = (
    "cpu-demo",
    "cpu-generate-demo-llama",
    "cpu-quantised-ffn-1024x4096x2",
    "h100-served-tinyllama-bfloat16",
)
#: By head of the ranking, the column of CSV with the same figure.
CSV_COLUMNS = {
    "#": "rank",
    "arm": "arm",
    "speed-up (95 %)": "speedup",
    "ms": "seconds_median",
    "build s": "cold_build_seconds",
    "MiB": "peak_memory_bytes",
    "error": "relative_error",
    **{head: f"tier_{name}" for name, head in CRITERION_HEADS.items()},
    "score": "score",
}


@pytest.fixture(params=FILES)
def answer(request: pytest.FixtureRequest) -> Answer:
    return opening.read_answer(str(EVIDENCE / f"{request.param}.json"))


@pytest.mark.parametrize("render", [text_report.render, markdown.render])
def test_every_row_of_a_text_has_a_cell_for_each_head(
    render: Any, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[set[int]] = []
    lay_out = tabulate.tabulate

    def record(rows: Sequence[Sequence[str]], headers: Sequence[str] = (), **options: Any) -> str:
        lengths.append({len(row) for row in (*rows, *([headers] if headers else []))})
        return lay_out(rows, headers, **options)

    monkeypatch.setattr(tabulate, "tabulate", record)
    render(answer)
    assert lengths
    assert [each for each in lengths if len(each) != 1] == []


def test_every_row_of_the_page_has_a_cell_for_each_head(answer: Answer) -> None:
    document = html5lib.parse(page.render(answer), namespaceHTMLElements=False)
    tables = document.findall(".//table")
    assert tables
    for table in tables:
        assert len({count_cells(row) for row in table.iter("tr")}) == 1, text_of(table)


def count_cells(row: ET.Element) -> int:
    cells = (cell for cell in row if cell.tag in {"td", "th"})
    return sum(int(cell.get("colspan", "1")) for cell in cells)


def text_of(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())[:200]


@pytest.fixture
def heads(finished_run: Answer) -> set[str]:
    """The heads of the ranking, without batch sizes."""
    head, *_ = ranking_rows(finished_run, has_intervals=True)
    return {cell.partition(" @")[0] for cell in head}


def test_every_head_of_the_ranking_has_a_column_of_csv(
    heads: set[str], finished_run: Answer
) -> None:
    assert heads == set(CSV_COLUMNS)
    assert {*COST_HEADS, *CRITERION_HEADS.values()} <= heads
    rows = list(csv.DictReader(io.StringIO(csv_rows.render([finished_run]))))
    measured = [row for row in rows if row["seconds_median"]]
    assert len(measured) == sum(len(arm.cells) for arm in finished_run.ranked)
    for head, column in CSV_COLUMNS.items():
        assert all(row[column] for row in measured), head
