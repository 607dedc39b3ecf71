"""The panes: what the best arms did with shapes that were not built."""

from __future__ import annotations

import dataclasses

import msgspec
from onscreen import async_test, running_app, wait_for_screen
from textual.widgets import Static

from advisor.context import Context
from advisor.decide.decision import decide
from advisor.report import markdown, shortcomings
from advisor.store.runs import Run
from advisor.tui.answer import RunAnswer
from advisor.tui.app import AdvisorApp
from advisor.tui.launch import LaunchOptions
from advisor.tui.screens.detail import DetailScreen
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.screens.results_panes import render_pane
from probes.wire.events import NewShapeResult
from probes.wire.shape import Shape

TRIED = (
    NewShapeResult(
        shape=Shape(3), outcome="stalled", first_call_seconds=2.5, steady_seconds=0.01, reason=None
    ),
    NewShapeResult(
        shape=Shape(1, 48),
        outcome="refused",
        first_call_seconds=None,
        steady_seconds=None,
        reason="it takes [b]fixed[/b] lengths",
    ),
)


def answer_of(run: Run) -> RunAnswer:
    return RunAnswer(decide(run), run.header().catalogue, run)


def answer_with_new_shapes(run: Run) -> RunAnswer:
    """Return the answer of a run whose advised arm tried two shapes."""
    answer = answer_of(run)
    assert answer.document.recommendation is not None
    arm, results = answer.document.recommendation.arm, answer.document.results
    measurements = tuple(
        msgspec.structs.replace(entry, new_shape_results=TRIED) if entry.arm == arm else entry
        for entry in results.measurements
    )
    results = msgspec.structs.replace(results, measurements=measurements)
    document = msgspec.structs.replace(answer.document, results=results)
    return dataclasses.replace(answer, document=document)


def test_new_shapes_are_with_the_reasons(sample_run: Run) -> None:
    pane = render_pane(answer_with_new_shapes(sample_run).document, "why")
    for each in TRIED:
        assert markdown.escape(shortcomings.describe_new_shape(each)) in pane


@async_test
async def test_new_shapes_are_explained(tui_context: Context, sample_run: Run) -> None:
    app = AdvisorApp(LaunchOptions(), tui_context)
    async with running_app(app, (120, 60)) as pilot:
        app.run_controller.show_answer(answer_with_new_shapes(sample_run))
        await wait_for_screen(pilot, ResultsScreen)
        await pilot.press("enter")
        detail = await wait_for_screen(pilot, DetailScreen)
        shown = str(detail.query_one("#text-explanation", Static).render())
        assert all(shortcomings.describe_new_shape(each) in shown for each in TRIED)
