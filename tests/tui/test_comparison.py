"""Two runs compared on the screen, in the words of the command."""

from __future__ import annotations

import dataclasses
import pathlib

import msgspec
from onscreen import async_test, running_app, screen_text, wait_for_screen, wait_for_text
from recorded_runs import make_run

from advisor.context import Context
from advisor.pipeline.decision import decide
from advisor.report.comparisons.comparison import compare_answers
from advisor.store.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.compare import CompareScreen
from advisor.tui.screens.history import HistoryScreen


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
        await wait_for_text(pilot, "exported")
        await pilot.press("escape")
        await wait_for_screen(pilot, HistoryScreen)


@async_test
async def test_a_decisive_difference_prevents_a_verdict_and_text_of_a_run_is_no_markup(
    tui_context: Context, tmp_path: pathlib.Path
) -> None:
    first = decide(make_run(Store(tmp_path), finished=True))
    model = msgspec.structs.replace(first.question.model, name="[a](http://b)\x1b]0;title\x07")
    question = msgspec.structs.replace(first.question, dtype="float16", model=model)
    second = msgspec.structs.replace(first, run_id="20991231-000000-0000", question=question)
    async with running_app(AdvisorApp(LaunchOptions(), tui_context), (140, 40)) as pilot:
        await pilot.app.push_screen(CompareScreen(compare_answers(first, second, 0.05)))
        await wait_for_screen(pilot, CompareScreen)
        await wait_for_text(pilot, "float16")
        shown = screen_text(pilot)
        assert "[a](http://b)" in shown
        assert "\x1b" not in shown
        assert "slower" not in shown.split("Differences")[0]
