"""The pictures of a run: where their marks are, and what they say without figures."""

from __future__ import annotations

import pathlib

import builders
import pytest

from advisor.domain.interval import Interval
from advisor.report.opening import read_answer
from advisor.tui.answer import RunAnswer
from advisor.tui.rendering.charts import charts_of, weight_map_lines
from advisor.tui.rendering.plot import Axis, Plot, Series, plot_lines

EVIDENCE = pathlib.Path(__file__).parents[1] / "stacks" / "evidence"
ALL_CHARTS = 3
DOCUMENTS = (
    "cpu-demo",
    "h200-generate-tinyllama-bfloat16",
    "cpu-ffn-executorch-tvm",
    "h200-ffn-1024x4096x4-float16",
)


@pytest.fixture(scope="module")
def answers() -> dict[str, RunAnswer]:
    known = builders.shipped_catalogue()
    return {
        name: RunAnswer.of_file(read_answer(str(EVIDENCE / f"{name}.json")), known)
        for name in DOCUMENTS
    }


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("size", [(78, 14), (118, 30), (60, 3), (1, 1)])
def test_every_picture_fits_every_size(
    name: str, size: tuple[int, int], answers: dict[str, RunAnswer]
) -> None:
    width, height = size
    charts = charts_of(answers[name])
    assert len(charts) == ALL_CHARTS
    for chart in charts:
        lines = chart(width, height)
        if (width, height) != (1, 1) and len(lines) > 1:
            assert max(map(len, lines)) <= width
            assert len(lines) <= max(height, 5)


def test_an_answer_has_no_picture_without_figures() -> None:
    document = read_answer(str(EVIDENCE / "h100-served-llama3.1-8b-bfloat16.json"))
    charts = charts_of(RunAnswer.of_file(document, builders.shipped_catalogue()))
    assert 0 < len(charts) < ALL_CHARTS
    assert all(chart(118, 30) for chart in charts)


def interval(value: float, low: float | None = None, high: float | None = None) -> Interval:
    return Interval(value=value, low=low, high=high)


def test_marks_and_intervals_are_at_their_place() -> None:
    plot = Plot(
        "title",
        "x",
        "y",
        (
            Series("1", "first", ((1, interval(1, 0.5, 2)), (100, interval(10)))),
            Series("2", "second", ((1, interval(1)),)),
        ),
    )
    lines = plot_lines(plot, 60, 14)
    cells = [line[9:39] for line in lines[2:-2]]
    assert len(cells) == 10
    (low,) = (number for number, line in enumerate(cells) if line.startswith("12"))
    assert cells[0].rstrip().endswith("1")
    assert cells[low - 1][0] == "\N{BOX DRAWINGS LIGHT VERTICAL}"
    assert "1 first" in lines[2]
    assert "2 second" in lines[3]


def test_an_axis_holds_every_finite_value() -> None:
    axis = Axis.around([0.0, 2.0, float("inf"), 200.0], 21)
    assert [axis.place(value) for value in (-1.0, 2.0, 20.0, 200.0, 1e9)] == [0, 0, 10, 20, 20]
    assert 1 < len(axis.ticks(4)) <= 4


def test_the_weight_map_has_the_advised_arm_at_the_present_weights(
    answers: dict[str, RunAnswer],
) -> None:
    answer = answers["h200-generate-tinyllama-bfloat16"]
    advice = answer.recommendation
    assert advice is not None
    lines = weight_map_lines(answer, 120, 44)
    rows, columns = 40, 60
    now = answer.priorities
    row = round((rows - 1) * (1 - now.productivity / 100))
    column = round(now.performance / 100 * (columns - 1))
    rank = answer.ranked_arm(advice.arm).scored.rank
    assert lines[1 + row][8 + column] == str(rank)
