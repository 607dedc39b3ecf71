"""Stored runs: an unfinished run is offered at the start; notes and deletion in the history."""

from __future__ import annotations

import builders
from onscreen import (
    SMALLEST,
    async_test,
    check_screen_at,
    key_hints,
    running_app,
    wait_for,
    wait_for_screen,
    wait_for_text,
)
from recorded_runs import make_run

from advisor.context import Context
from advisor.domain.run_events import Planned
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import ChoiceDialog
from advisor.tui.launch import LaunchOptions
from advisor.tui.screens.history import EMPTY_MESSAGE, HistoryScreen
from advisor.tui.screens.runs import list_items
from advisor.tui.table import Table


@async_test
async def test_a_note_can_be_written_and_removed(context: Context) -> None:
    run = make_run(context.store, finished=True)
    make_run(context.store, finished=False)
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app) as pilot:
        app.action_history()
        screen = await wait_for_screen(pilot, HistoryScreen)
        table = screen.query_one(Table)
        await wait_for(pilot, lambda: table.row_count == 2)
        await pilot.press("t", *"[/old] driver", "enter")
        await wait_for_text(pilot, "Note: [/old] driver")
        assert run.note() == "[/old] driver"
        await pilot.resize_terminal(140, 40)
        await wait_for_text(pilot, "Note: [/old] driver")
        await pilot.press("t", "escape")
        assert run.note() == "[/old] driver"
        await pilot.press("t", *["backspace"] * 13, "enter")
        await wait_for(pilot, lambda: run.note() == "")


@async_test
async def test_the_footer_offers_only_keys_with_an_effect(context: Context) -> None:
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app) as pilot:
        app.action_history()
        await wait_for_screen(pilot, HistoryScreen)
        await wait_for_text(pilot, EMPTY_MESSAGE[:12])
        rows = {"mark", "note", "delete"}
        assert not {"resume", "compare", *rows} & key_hints(pilot)
        make_run(context.store, finished=True)
        make_run(context.store, finished=False)
        await app.pop_screen()
        app.action_history()
        screen = await wait_for_screen(pilot, HistoryScreen)
        await wait_for(pilot, lambda: screen.query_one(Table).row_count == 2)
        await wait_for(pilot, lambda: rows <= key_hints(pilot))
        assert not {"resume", "compare"} & key_hints(pilot)
        await pilot.press("space", "d", "t")
        assert app.screen is screen, "keys of one row wait while a run is marked"
        await wait_for(pilot, lambda: "note" not in key_hints(pilot))
        assert not {"resume", "compare", "delete", "new"} & key_hints(pilot)
        await pilot.press("down")
        await wait_for(pilot, lambda: {"mark", "compare"} <= key_hints(pilot))
        await pilot.press("up", "space")
        await wait_for(pilot, lambda: {"note", "delete", "new"} <= key_hints(pilot))


def test_a_run_that_failed_before_a_measurement_is_marked(context: Context) -> None:
    failed, stopped = "20261121-130000-0002", make_run(context.store, finished=False)
    with context.store.create(builders.header(run_id=failed)).writer() as writer:
        writer.append(builders.events(Planned(plan=builders.plan()))[0])
        going_on = list_items(context.store)[0]
    items = {item.entry.run_id: item for item in list_items(context.store)}
    assert items[failed].progress
    assert not items[stopped.directory.name].progress
    assert not going_on.progress


@async_test
async def test_a_run_is_deleted_after_a_confirmation_and_not_while_it_is_active(
    context: Context,
) -> None:
    run, other = make_run(context.store, finished=True), make_run(context.store, finished=False)
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app) as pilot:
        app.action_history()
        screen = await wait_for_screen(pilot, HistoryScreen)
        table = screen.query_one(Table)
        await wait_for(pilot, lambda: table.row_count == 2)
        await pilot.press("d")
        await wait_for_screen(pilot, ChoiceDialog)
        assert run.directory.name in await check_screen_at(pilot, SMALLEST)
        await pilot.press("escape")
        await wait_for_screen(pilot, HistoryScreen)
        assert run.directory.exists()
        with run.writer():
            await pilot.press("d", "y")
            await wait_for_text(pilot, "another process")
        assert run.directory.exists()
        await pilot.press("d", "y")
        await wait_for(pilot, lambda: not run.directory.exists())
        await wait_for(pilot, lambda: table.row_count == 1)
        assert table.key_at_cursor() == other.directory.name
