"""The panes: what the best arms did with shapes that were not built."""

from __future__ import annotations

import dataclasses

import msgspec
from onscreen import async_test, running_app, wait_for_screen, wait_for_text

from advisor.context import Context
from advisor.decide.decision import decide
from advisor.report import shortcomings
from advisor.store.runs import Run
from advisor.tui.answer import RunAnswer
from advisor.tui.app import AdvisorApp
from advisor.tui.launch import LaunchOptions
from advisor.tui.screens.detail import NEW_SHAPES, DetailScreen, render_new_shapes
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.screens.results_panes import render_why
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
    assert answer.recommendation is not None
    arm, results = answer.recommendation.arm, answer.document.results
    measurements = tuple(
        msgspec.structs.replace(entry, new_shape_results=TRIED) if entry.arm == arm else entry
        for entry in results.measurements
    )
    results = msgspec.structs.replace(results, measurements=measurements)
    document = msgspec.structs.replace(answer.document, results=results)
    return dataclasses.replace(answer, document=document)


def test_new_shapes_are_with_the_reasons_and_with_the_times_of_the_arm(sample_run: Run) -> None:
    without = answer_of(sample_run)
    assert NEW_SHAPES not in render_why(without).plain
    answer = answer_with_new_shapes(sample_run)
    assert answer.recommendation is not None
    why = render_why(answer).plain
    detail = render_new_shapes(answer.ranked_arm(answer.recommendation.arm)).plain
    for result in TRIED:
        assert shortcomings.describe_new_shape(result) in why
        assert shortcomings.describe_new_shape(result) in detail
    assert not render_new_shapes(without.ranked_arm(answer.recommendation.arm)).plain


@async_test
async def test_new_shapes_are_shown_on_the_screens(tui_context: Context, sample_run: Run) -> None:
    app = AdvisorApp(LaunchOptions(), tui_context)
    async with running_app(app, (120, 40)) as pilot:
        app.run_controller.show_answer(answer_with_new_shapes(sample_run))
        await wait_for_screen(pilot, ResultsScreen)
        await wait_for_text(pilot, shortcomings.describe_new_shape(TRIED[1]))
        await pilot.press("enter")
        await wait_for_screen(pilot, DetailScreen)
        await pilot.press("2")
        await wait_for_text(pilot, shortcomings.describe_new_shape(TRIED[0]))
