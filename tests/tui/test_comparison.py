"""Two runs compared: their rows and verdicts, and the screen."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import msgspec
import pytest
from onscreen import async_test, running_app, screen_text, settle, wait_for_screen
from recorded_runs import make_run
from report_runs import with_results

from advisor.context import Context
from advisor.domain.answer import Answer
from advisor.domain.interval import Interval
from advisor.domain.measurement import CallSeconds, GenerationMetrics, Throughput
from advisor.domain.plan import BASELINE
from advisor.pipeline.decision import decide
from advisor.store.store import Store
from advisor.system.number_format import format_interval
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.compare import VERDICT_LABELS, CompareScreen, compare_runs
from advisor.tui.screens.history import HistoryScreen


@pytest.fixture
def document(tmp_path: pathlib.Path) -> Answer:
    return slowed(decide(make_run(Store(tmp_path), finished=True)), 1.0)


def as_another_run(document: Answer) -> Answer:
    return msgspec.structs.replace(document, run_id="20991231-000000-0000")


def slowed(document: Answer, factor: float) -> Answer:
    """Return the document with all times multiplied; their intervals are one percent wide."""
    entries = []
    for entry in document.results.measurements:
        cells = []
        for cell in entry.cells:
            median = cell.seconds.median * factor
            seconds = CallSeconds(
                median=median, low=median * 0.99, high=median * 1.01, samples=cell.seconds.samples
            )
            cells.append(msgspec.structs.replace(cell, seconds=seconds))
        entries.append(msgspec.structs.replace(entry, cells=tuple(cells)))
    return with_results(document, measurements=tuple(entries))


def as_text_generation(document: Answer) -> Answer:
    """Return the document as if each call had generated 32 tokens."""
    unknown: dict[str, Any] = dict.fromkeys(GenerationMetrics.__struct_fields__)
    entries = []
    for entry in document.results.measurements:
        cells = tuple(
            msgspec.structs.replace(
                cell,
                generation=GenerationMetrics(**unknown),
                throughput=Throughput(value=32 / cell.seconds.median, unit="tokens/s"),
            )
            for cell in entry.cells
        )
        entries.append(msgspec.structs.replace(entry, cells=cells))
    return with_results(document, measurements=tuple(entries))


def with_question(document: Answer, **changes: Any) -> Answer:
    """Return the document with fields of its question replaced."""
    return msgspec.structs.replace(
        document, question=msgspec.structs.replace(document.question, **changes)
    )


def with_speedups(document: Answer, factor: float) -> Answer:
    """Return the document with the speed-ups of all arms but the baseline multiplied."""
    entries = []
    for entry in document.results.measurements:
        value = 2.0 * factor
        narrow = Interval(value=value, low=value * 0.999, high=value * 1.001)
        cells = tuple(msgspec.structs.replace(cell, speedup=narrow) for cell in entry.cells)
        entries.append(
            entry if entry.arm == BASELINE else msgspec.structs.replace(entry, cells=cells)
        )
    return without_noise(with_results(document, measurements=tuple(entries)))


def without_noise(document: Answer) -> Answer:
    races = tuple(msgspec.structs.replace(race, noise_floor=0.0) for race in document.results.races)
    return with_results(document, noise_floor=0.0, races=races)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "same"), (0.5, "slower"), (2.0, "faster")])
def test_every_arm_has_a_row_with_a_verdict_on_its_speedup(
    document: Answer, factor: float, verdict: str
) -> None:
    compared = compare_runs(
        with_speedups(document, 1.0), as_another_run(with_speedups(document, factor))
    )
    assert [row.arm for row in compared.rows] == [
        each.arm for each in document.ranked if each.cells
    ]
    assert {row.verdict for row in compared.rows if row.arm != BASELINE} == {verdict}
    assert {
        round(row.speed.value, 6) for row in compared.rows if row.speed and row.arm != BASELINE
    } == {factor}


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "same"), (1.5, "slower"), (0.5, "faster")])
def test_the_row_of_the_baseline_shows_its_speed(
    document: Answer, factor: float, verdict: str
) -> None:
    before = without_noise(document)
    compared = compare_runs(before, as_another_run(slowed(before, factor)))
    rows = {row.arm: row for row in compared.rows}
    assert rows[BASELINE].verdict == verdict
    speed = rows[BASELINE].speed
    assert speed is not None
    assert speed.value == pytest.approx(1 / factor)


def test_runs_with_different_questions_are_shown_without_a_verdict(
    document: Answer,
) -> None:
    compared = compare_runs(document, with_question(document, dtype="float16"))
    assert {(row.verdict, row.speed) for row in compared.rows} == {("not-compared", None)}
    assert all(row.first and row.second for row in compared.rows)


def test_an_arm_of_only_one_run_is_marked(document: Answer) -> None:
    without = msgspec.structs.replace(
        with_results(
            document,
            measurements=tuple(
                each for each in document.results.measurements if each.arm != "exported"
            ),
        ),
        scores=tuple(each for each in document.scores if each.arm != "exported"),
    )
    assert {
        row.verdict for row in compare_runs(document, without).rows if row.arm == "exported"
    } == {"only-in-first"}
    assert {
        row.verdict for row in compare_runs(without, document).rows if row.arm == "exported"
    } == {"only-in-second"}


@async_test
async def test_generated_text_is_compared_by_its_rate(
    document: Answer, tui_context: Context
) -> None:
    first, second = (as_text_generation(each) for each in (document, slowed(document, 2.0)))
    rate = first.results.measurements[0].cells[0].throughput.value
    interval = Interval(value=rate, low=rate / 1.01, high=rate / 0.99)
    async with running_app(AdvisorApp(LaunchOptions(), tui_context), (140, 30)) as pilot:
        await pilot.app.push_screen(CompareScreen(compare_runs(first, second)))
        await wait_for_screen(pilot, CompareScreen)
        assert "A tok/s" in screen_text(pilot)
        assert format_interval(interval, unit="", decimals=None) in screen_text(pilot)
        await pilot.app.pop_screen()
        await pilot.app.push_screen(CompareScreen(compare_runs(first, document)))
        await settle(pilot)
        assert "A ms" in screen_text(pilot)


@async_test
async def test_two_marked_runs_are_compared(tui_context: Context, tmp_path: pathlib.Path) -> None:
    context = dataclasses.replace(tui_context, store=Store(tmp_path))
    runs = [make_run(context.store, finished=finished) for finished in (True, False)]
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app) as pilot:
        app.action_history()
        await wait_for_screen(pilot, HistoryScreen)
        await pilot.press("c")
        assert isinstance(app.screen, HistoryScreen)
        await pilot.press("space", "down", "space", "c")
        await wait_for_screen(pilot, CompareScreen)
        assert all(run.directory.name[-11:] in screen_text(pilot) for run in runs)
        assert any(label in screen_text(pilot) for label in VERDICT_LABELS.values())
        await pilot.press("d", "escape")
        await wait_for_screen(pilot, HistoryScreen)


@async_test
async def test_a_decisive_difference_is_shown_before_the_figures_and_prevents_a_verdict(
    document: Answer, tui_context: Context
) -> None:
    slow = slowed(document, 2.0)
    async with running_app(AdvisorApp(LaunchOptions(), tui_context), (140, 30)) as pilot:
        await pilot.app.push_screen(
            CompareScreen(compare_runs(document, with_question(slow, dtype="float16")))
        )
        await wait_for_screen(pilot, CompareScreen)
        text = screen_text(pilot)
        assert "! precision           float32  \N{RIGHTWARDS ARROW}  float16" in text
        assert text.index("! precision") < text.index("A ms")
        assert VERDICT_LABELS["slower"] not in text
        await pilot.app.pop_screen()
        await pilot.app.push_screen(CompareScreen(compare_runs(document, slow)))
        await settle(pilot)
        assert f"0.50x (0.48 to 0.52) {VERDICT_LABELS['slower']}" in screen_text(pilot)
