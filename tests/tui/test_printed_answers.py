"""Keys that leave the terminal to a command, which prints in the shell."""

from __future__ import annotations

import contextlib

import pytest
from onscreen import async_test, running_app, wait_for, wait_for_screen
from recorded_fleet import LOST, cell, fleet_of
from recorded_runs import make_run

from advisor.context import Context
from advisor.tui.app import AdvisorApp
from advisor.tui.launch import LaunchOptions
from advisor.tui.screens.history import HistoryScreen, SecondRunTable
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.table import Table


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run commands without a terminal to leave and to return from."""
    monkeypatch.setattr(AdvisorApp, "suspend", lambda _: contextlib.nullcontext())
    monkeypatch.setattr("builtins.input", lambda _: "")


@async_test
async def test_two_marked_runs_are_compared_and_f_prints_the_newest_fleet(
    context: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = [make_run(context.store, finished=finished) for finished in (True, False)]
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app) as pilot:
        app.action_history()
        history = await wait_for_screen(pilot, HistoryScreen)
        await wait_for(pilot, lambda: history.query_one(Table).row_count == 2)
        await pilot.press("c")
        assert capfd.readouterr().out == "", "one run is not compared"
        await pilot.press("space", "down", "space", "c")
        assert app.screen is history
        printed = capfd.readouterr().out
        assert all(run.directory.name in printed for run in runs)
        assert "exported" in printed
        assert "f" not in history.active_bindings, "no fleet is stored"
        await app.pop_screen()
        run_id = runs[0].header().run_id
        lost = cell("H200", None, model="[/red]", reason=LOST)
        context.store.fleets.save(fleet_of(cell("H200", run_id), lost))
        app.action_history()
        await wait_for_screen(pilot, HistoryScreen)
        await pilot.press("f")
    printed = capfd.readouterr().out
    assert run_id in printed
    assert "[/red]" in printed


@async_test
async def test_b_in_the_results_asks_for_the_second_run_and_compares_with_enter(
    context: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    first = make_run(context.store, finished=True)
    second = make_run(context.store, finished=True, run_id="20261121-130000-0002")
    app = AdvisorApp(LaunchOptions(open=str(first.directory)), context)
    async with running_app(app) as pilot:
        await wait_for_screen(pilot, ResultsScreen)
        await pilot.press("b")
        history = await wait_for_screen(pilot, HistoryScreen)
        table = history.query_one(Table)
        await wait_for(pilot, lambda: table.row_count == 2)
        table.move_cursor_to(first.directory.name)
        assert history.active_bindings["enter"].binding.description == SecondRunTable.COMPARE
        assert not {"r", "space", "c", "t", "d", "n", "f"} & history.active_bindings.keys()
        await pilot.press("enter")
        assert app.screen is history, "a run is not compared with itself"
        table.move_cursor_to(second.directory.name)
        await pilot.press("enter")
    before, after = capfd.readouterr().out.splitlines()[:2]
    assert first.directory.name in before
    assert second.directory.name in after
