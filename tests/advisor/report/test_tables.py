"""Tables and sections of texts, Markdown and the page: heads, cells, alignment, accuracy."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

import builders
import built_answers
import built_measurements
import html5lib
import pytest
import tabulate
from kept.runs import EVIDENCE, decide_run
from pyarrow import parquet

from advisor.domain.accuracy import MetricLoss, TrainedLoss
from advisor.domain.answer import Answer
from advisor.domain.arm_figures import ARM_FIGURES
from advisor.domain.constraints import CRITERIA
from advisor.domain.measurement import Measurement
from advisor.domain.question import WeightFormat
from advisor.domain.recommendation import GuidelineOpinion, RunningCost
from advisor.domain.results import ScoredArm
from advisor.domain.text import MISSING
from advisor.report import explanation, figures, markdown, page, text_report
from advisor.report.answer_files import answer_of_run, read_answer
from advisor.report.formatting import accuracy_cell, accuracy_line, markdown_table, plain_table
from advisor.report.notebook import render_html
from advisor.report.ranking import RankingColumn, ranking_columns, ranking_rows
from advisor.report.tables import ACCURACY_TITLE, AGREEMENT, list_sections, list_tables
from advisor.store.runs import Run
from advisor.tui.answer_panes import ranking_table
from probes.accuracy import Accuracy
from probes.shape import Shape

#: Runs of one forward pass, of generated text, with quantised weights, and of servers.
FILES = (
    "cpu-demo",
    "cpu-generate-demo-llama",
    "cpu-quantised-ffn-1024x4096x2",
    "h100-served-tinyllama-bfloat16",
)


@pytest.fixture(params=FILES)
def answer(request: pytest.FixtureRequest) -> Answer:
    return decide_run(request.param)


@pytest.mark.parametrize(
    "kept", ["h100-tinyllama-liger-bfloat16", "h200-generate-tinyllama-genai-bfloat16"]
)
def test_the_times_of_the_ranking_follow_its_speedups(kept: str) -> None:
    """In these early documents, the stored times are of other rounds than the speed-ups."""
    answer = read_answer(str(EVIDENCE / f"{kept}.json"))
    columns = {column.name: column for column in ranking_columns(answer)}
    (own,) = [each for each in answer.ranking if each.arm == answer.results.baseline]
    for cell in own.cells:
        write = columns[f"call-{cell.shape}"].write
        for entry in answer.ranking:
            speedup = next(each.speedup for each in entry.cells if each.shape == cell.shape)
            one, other = (float(write(each).replace(",", "")) for each in (own, entry))
            ratio = other / one if cell.generation else one / other
            assert ratio == pytest.approx(speedup.value, rel=0.02)


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
    tables = html5lib.parse(page.render(answer), namespaceHTMLElements=False).findall(".//table")
    assert tables
    for table in tables:
        widths = {
            sum(int(cell.get("colspan", "1")) for cell in row if cell.tag in {"td", "th"})
            for row in table.iter("tr")
        }
        assert len(widths) == 1, text_of(table)


def text_of(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())[:200]


def test_every_column_of_the_ranking_is_in_every_output(answer: Answer) -> None:
    columns = ranking_columns(answer, has_intervals=True)
    heads = [column.head for column in columns]
    rows = [[column.write(each) for column in columns] for each in answer.ranking]
    (of_page,) = (
        table
        for table in html5lib.parse(page.render(answer), namespaceHTMLElements=False).iter("table")
        if text_of(table.find("caption")).startswith("Best score first")
    )
    notebook = html5lib.parse(render_html(answer), namespaceHTMLElements=False)
    for table in (of_page, notebook.find(".//table")):
        first, *others = (
            [text_of(cell) for cell in row if cell.tag in {"td", "th"}] for row in table.iter("tr")
        )
        assert first == heads
        assert others == rows
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in markdown.render(answer).splitlines()
    ]
    for row in (heads, *rows):
        assert [markdown.escape(cell) for cell in row] in lines
    text = text_report.render(answer)
    assert plain_table(ranking_rows(answer, has_intervals=False), {0, 1})[0] in text.splitlines()


def test_every_column_of_the_ranking_is_on_the_screens_and_explained(answer: Answer) -> None:
    columns = ranking_columns(answer, has_latency=True)
    shown, rows = ranking_table(answer)
    assert [column.key for column in shown if column.key != "interval"] == [
        column.name for column in columns
    ]
    explained = explanation.explain_arm(answer, answer.ranking[0], CRITERIA, {})
    for column in columns:
        cell = column.write(answer.ranking[0])
        assert rows[answer.ranking[0].arm][column.name] == cell
        if column.name not in {"rank", "arm", "score", *CRITERIA}:
            assert f"{column.head} {cell}" in "\n".join(explained)


def exported_as(column: RankingColumn) -> str:
    """Return the column of the exports that has the figure of a column of the ranking."""
    name = column.name
    if name in ARM_FIGURES and ARM_FIGURES[name].head:
        return ARM_FIGURES[name].column
    if name.startswith("call-"):
        return "throughput" if column.head.startswith("tok/s") else "seconds_median"
    others = {"accuracy": "relative_error", "ttft": "ttft_seconds", "itl": "itl_seconds"}
    return f"tier_{name}" if name in CRITERIA else others.get(name, name)


def test_every_figure_is_in_every_export(answer: Answer) -> None:
    columns = ranking_columns(answer, has_latency=True)
    names = [figure.name for figure in figures.FIGURES]
    assert len(set(names)) == len(names)
    assert {exported_as(column) for column in columns} <= set(names)
    rows = list(figures.rows(answer))
    assert all(list(row) == names for row in rows)
    assert next(csv.reader(io.StringIO(figures.to_csv([answer])))) == names
    assert parquet.read_table(io.BytesIO(figures.to_parquet(answer))).to_pylist() == rows
    kinds = {figure.name: figure.kind for figure in figures.FIGURES}
    for row in rows:
        for name, value in row.items():
            assert value is None or isinstance(value, kinds[name] | int), name


def test_every_cell_of_the_ranking_has_its_figure_in_the_exports(made_run: Run) -> None:
    answer = answer_of_run(made_run)
    measured = [row for row in figures.rows(answer) if row["seconds_median"]]
    assert len(measured) == sum(len(each.cells) for each in answer.ranking)
    for column in ranking_columns(answer):
        for entry in answer.ranking:
            own = [row[exported_as(column)] for row in measured if row["arm"] == entry.arm]
            is_known = any(value is not None for value in own)
            assert is_known == (column.write(entry) != MISSING), column.head


@pytest.mark.parametrize(
    ("rows", "text_columns", "expected"),
    [
        ([["a", "bbb"], ["ccc", "d"]], None, ["a    bbb", "ccc  d"]),
        ([["a", "bbb"], ["ccc", "d"]], {0}, ["a    bbb", "ccc    d"]),
        ([["a", "bbb"], ["ccc", "d"]], {1}, ["  a  bbb", "ccc  d"]),
        ([["x", "1.50"], ["y", "1e3"]], None, ["x  1.50", "y  1e3"]),
        ([["a\nb", "c"], ["", ""], ["d", ""]], None, ["a b  c", "", "d"]),
    ],
    ids=["left", "right", "left and right", "numbers", "one line"],
)
def test_columns_are_aligned_and_every_row_is_one_line(
    rows: list[list[str]], text_columns: set[int] | None, expected: list[str]
) -> None:
    assert plain_table(rows, text_columns) == expected


def test_a_markdown_table_has_a_line_that_aligns_its_columns() -> None:
    head, rule, row = markdown_table(["arm", "ms"], [["compiled", "1.50"]], {0})
    assert [cell.strip() for cell in head.split("|")[1:-1]] == ["arm", "ms"]
    left, right = rule.split("|")[1:-1]
    assert left.startswith(":-")
    assert right.endswith("-:")
    assert [cell.strip() for cell in row.split("|")[1:-1]] == ["compiled", "1.50"]


@pytest.mark.parametrize(
    ("accuracy_class", "accuracy", "cell"),
    [
        ("exact", Accuracy(relative_error=1e-7), "1.0e-07"),
        ("close", Accuracy(relative_error=2.13e-3), "2.1e-03~"),
        ("close", Accuracy(relative_error=9.0, kl_mean=4e-3), "4.0e-03~"),
        ("exact", Accuracy(kl_mean=-7.6e-8), "0"),
        ("unchecked", Accuracy(fault="constant-output"), "?"),
        ("exact", Accuracy(relative_error=0.0), "0"),
        ("exact", Accuracy(), "-"),
    ],
)
def test_a_table_has_the_error_and_the_mark_of_its_class(
    accuracy_class: str, accuracy: Accuracy, cell: str
) -> None:
    assert (
        accuracy_cell([builders.checked(accuracy_class=accuracy_class, accuracy=accuracy)]) == cell
    )


def test_the_worst_batch_size_counts() -> None:
    checks = [
        builders.checked(1, accuracy_class="close", accuracy=Accuracy(relative_error=1e-3)),
        builders.checked(4, accuracy=Accuracy(relative_error=3e-3)),
    ]
    assert accuracy_cell(checks) == "3.0e-03~"
    assert accuracy_cell([]) == "-"


def test_divergences_over_other_tokens_have_no_number_beside_those_over_all() -> None:
    answer = read_answer(str(EVIDENCE / "cpu-quantised-vllm-llama-768.json"))
    checks = {each.arm: each.correctness for each in answer.results.measurements}
    cells = {arm: accuracy_cell(each) for arm, each in checks.items()}
    assert (cells["vllm"], cells["vllm/w4a16"]) == ("exact", "close~")
    assert cells["pytorch-eager"] == "2.1e-06"
    lines = {arm: accuracy_line(each[0]) for arm, each in checks.items()}
    (table,) = (each for each in list_tables(answer) if each.name == "accuracy")
    rows = {row[0]: row[3] for row in table.rows}
    for arm in ("vllm", "pytorch-eager"):
        assert ("likeliest" in lines[arm]) == ("likeliest" in rows[arm]) == (arm == "vllm")


def test_the_line_has_every_known_figure() -> None:
    found = Accuracy(
        fault="error",
        relative_error=2e-3,
        ratio_to_eager=7.0,
        cosine=0.99999,
        worst_element=0.1,
        top1=0.995,
        envelope=1e-3,
        same_input_calls=30,
    )
    line = accuracy_line(
        builders.checked(accuracy_class="close", accuracy=found, reference="float64")
    )
    for figure in ("close (error)", "2.0e-03", "7x", "0.99999", "1.0e-01", "99.5 %", "30 times"):
        assert figure in line
    assert line.endswith("against float64")


def lines(name: str, **changes: Any) -> Sequence[str]:
    """Return the lines of a section of a report with these optional parts; none if it is absent."""
    advice = {"costs": (), "guideline": None, **changes}
    answer = built_answers.with_advice(built_answers.answer(), **advice)
    return next((each.lines for each in list_sections(answer) if each.name == name), ())


def test_only_the_costs_of_the_recommended_arm_are_listed() -> None:
    costs = tuple(
        RunningCost(arm=arm, shape=Shape(1), value=0.123456, unit="million tokens")
        for arm in ("compiled", "other")
    )
    (line,) = lines("cost", costs=costs)
    assert "compiled" in line
    assert "0.1235 per million tokens" in line


def test_energy_is_listed_per_call_and_per_thousand_requests() -> None:
    check = built_measurements.sustained(joules_per_call={"one": 12.345, "two": None})
    answer = built_answers.with_results(built_answers.answer(), sustained=check)
    (cost,) = (each.lines for each in list_sections(answer) if each.name == "cost")
    (line,) = (each for each in cost if "J per call" in each)
    assert line.startswith("one at batch size 4: 12.3 J per call, 0.857 Wh per thousand")


@pytest.mark.parametrize("agrees", [True, False, None])
def test_published_advice_is_compared_with_the_measurement(*, agrees: bool | None) -> None:
    guideline = GuidelineOpinion(
        id="one", says="use it", workflows=(), agrees=agrees, source="a test"
    )
    assert lines("advice", guideline=guideline) == [
        "use it",
        f"  {AGREEMENT[agrees]}",
        "  source: a test",
    ]


ArmWithFigures = tuple[ScoredArm, Measurement]


def arm(
    name: str, speedup: float, error: float, size: int, weights: WeightFormat | None
) -> ArmWithFigures:
    scored = builders.scored_arm(name, speedup=speedup)
    accuracy = Accuracy(fault="error", relative_error=error, cosine=1 - error)
    return (
        builders.replace(scored, weight_format=weights),
        builders.measurement(
            name,
            speedup=speedup,
            weight_bytes=size,
            correctness=(builders.checked(accuracy_class="close", accuracy=accuracy),),
        ),
    )


def answer_with(*arms: ArmWithFigures) -> Answer:
    scores, measurements = zip(*arms, strict=True)
    answer = built_answers.answer(scores=scores, results=builders.results())
    return built_answers.with_results(answer, measurements=measurements)


NATIVE = [arm("eager", 1.0, 1e-7, 400, None), arm("compiled", 1.5, 1e-7, 400, None)]


def column(answer: Answer, name: str) -> dict[str, str]:
    """Return the cells of a column by arm; empty without the table."""
    tables = [table for table in list_tables(answer) if table.name == "accuracy"]
    head, *rows = tables[0].rows if tables else [[name]]
    return {row[0]: row[list(head).index(name)] for row in rows}


def test_without_a_quantised_arm_there_is_no_table() -> None:
    assert column(answer_with(*NATIVE), "arm") == {}


def test_an_arm_that_is_nowhere_better_is_not_on_the_front() -> None:
    quantised = [arm("q8", 3.0, 1e-2, 100, "int8"), arm("bad", 2.0, 2e-2, 100, "int8")]
    answer = answer_with(*NATIVE, *quantised)
    assert {name for name, mark in column(answer, "front").items() if mark} == {"compiled", "q8"}
    shares = column(answer, "of native")
    assert (shares["q8"], shares["eager"]) == ("25 %", "100 %")


def test_equal_arms_are_both_on_the_front() -> None:
    equal = answer_with(*(arm(name, 2.0, 1e-2, 100, "int8") for name in ("one", "two")))
    assert all(column(equal, "front").values())
    assert set(column(equal, "of native").values()) == {MISSING}, "no native arm has a rank"


def test_a_metric_of_native_arms_is_a_table_too() -> None:
    metric = MetricLoss(value=0.9, baseline=1.0, recovery=0.9)
    loss = TrainedLoss(basis="metric", loss_class="worse", metric=metric)
    lossy = built_answers.with_measurement(answer_with(*NATIVE), trained_loss=loss)
    assert set(column(lossy, "class").values()) == {"worse"}


def test_the_class_is_in_every_report() -> None:
    loss = TrainedLoss(basis="text", loss_class="B")
    answer = built_answers.with_score(built_answers.answer(), "compiled", weight_format="int8")
    answer = built_answers.with_measurement(answer, "compiled", trained_loss=loss)
    assert column(answer, "class")["compiled"] == "B"
    assert ACCURACY_TITLE in page.render(answer)
    lines = markdown.render(answer).splitlines()
    cells = [
        cell.strip() for line in lines if line.startswith("| compiled") for cell in line.split("|")
    ]
    assert "B" in cells
    assert [row["loss_class"] for row in figures.rows(answer) if row["arm"] == "compiled"] == ["B"]
