"""The screen with the answers of a fleet: its rows, its filter, and the runs behind the rows."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from onscreen import (
    SIZES,
    async_test,
    check_screen_at,
    running_app,
    screen_text,
    wait_for,
    wait_for_screen,
    wait_for_text,
)
from recorded_fleet import HOSTILE, store_fleet
from recorded_runs import make_run

from advisor.context import Context
from advisor.store.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.fleet import FleetScreen
from advisor.tui.screens.history import HistoryScreen
from advisor.tui.screens.home import HomeScreen
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.widgets.table import Table


@pytest.fixture
def context(tui_context: Context, tmp_path: pathlib.Path) -> Context:
    """A context whose store has two fleets."""
    store = Store(tmp_path / "stored")
    run_id = make_run(store, finished=True).header().run_id
    store_fleet(store, "20261120-120000-0001", run_id, reason="no node joined")
    store_fleet(store, "20261121-120000-0002", run_id)
    return dataclasses.replace(tui_context, store=store)


@async_test
async def test_a_row_opens_its_run_and_a_row_without_a_run_shows_the_reason(
    context: Context,
) -> None:
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app) as pilot:
        app.action_history()
        await wait_for_screen(pilot, HistoryScreen)
        await pilot.press("f")
        await wait_for_screen(pilot, FleetScreen)
        for size in reversed(SIZES):
            screen = await check_screen_at(pilot, size)
            assert all(text in screen for text in ("demo", "H200", HOSTILE, "no answer"))
        assert "node n1, device 0" in screen_text(pilot)
        await pilot.press("down")
        await wait_for_text(pilot, f"{HOSTILE} on L40S: the fleet lost its last L40S")
        await pilot.press("enter")
        await wait_for_text(pilot, "this row has no run")
        await pilot.press("up", "enter")
        await wait_for_screen(pilot, ResultsScreen)


@async_test
async def test_rows_can_be_filtered_and_older_fleets_can_be_shown(context: Context) -> None:
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app, (100, 30)) as pilot:
        app.action_fleet()
        screen = await wait_for_screen(pilot, FleetScreen)
        table = screen.query_one(Table)
        await pilot.press("slash", *"l40s", "enter")
        await wait_for(pilot, lambda: table.row_count == 1)
        await wait_for_text(pilot, HOSTILE)
        await pilot.press("escape")
        await wait_for(pilot, lambda: table.row_count == 2)
        await pilot.press("left_square_bracket")
        await wait_for_text(pilot, "Fleet 20261120-120000-0001")
        await pilot.press("left_square_bracket", "right_square_bracket")
        await wait_for_text(pilot, "Fleet 20261121-120000-0002")
        await pilot.press("escape")
        await wait_for_screen(pilot, HomeScreen)


@async_test
async def test_without_a_fleet_there_is_only_a_notification(
    tui_context: Context, tmp_path: pathlib.Path
) -> None:
    app = AdvisorApp(LaunchOptions(), dataclasses.replace(tui_context, store=Store(tmp_path)))
    async with running_app(app) as pilot:
        app.action_history()
        history = await wait_for_screen(pilot, HistoryScreen)
        assert "f" not in history.active_bindings
        app.action_fleet()
        await wait_for_text(pilot, "no fleet is stored yet")
        assert isinstance(app.screen, HistoryScreen)
