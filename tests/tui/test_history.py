"""Stored runs: an unfinished run is offered at the start; notes and deletion in the history."""

from __future__ import annotations

import dataclasses
import pathlib
import sys

import builders
import pytest
from onscreen import (
    SIZES,
    async_test,
    check_screen_at,
    running_app,
    wait_for,
    wait_for_screen,
    wait_for_text,
)
from recorded_runs import make_run

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import Planned, WorkerEnded, WorkerSpawned
from advisor.store.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.launch import LaunchOptions
from advisor.tui.questions import DeleteDialog
from advisor.tui.screens.history import EMPTY_MESSAGE, HistoryScreen, SecondRunTable
from advisor.tui.screens.home import list_items
from advisor.tui.screens.live import LiveScreen
from advisor.tui.screens.setup import SetupScreen
from advisor.tui.session import HostProcess
from advisor.tui.stored_runs import find_unfinished_run
from advisor.tui.table import Table
from probes.wire.outcome import Failure, Outcome


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Store:
    return Store(tmp_path / "stored")


def test_the_newest_unfinished_run_of_this_machine_is_found(
    store: Store, tmp_path: pathlib.Path
) -> None:
    assert find_unfinished_run(store) is None
    assert not (tmp_path / "stored").exists()
    make_run(store, finished=True)
    make_run(store, finished=False, run_id="20261122-120000-0003", imported=True)
    make_run(store, finished=False, run_id="20261123-120000-f1ee-0001-1")  # of a fleet
    assert find_unfinished_run(store) is None
    make_run(store, finished=False)
    newest = make_run(store, finished=False, run_id="20261121-130000-0002")
    unfinished = find_unfinished_run(store)
    assert unfinished is not None
    assert unfinished.entry.run_id == newest.directory.name
    assert not unfinished.is_active
    assert unfinished.others == 1
    with newest.writer():
        active = find_unfinished_run(store)
    assert active is not None
    assert active.is_active
    assert active.notice != unfinished.notice
    refused = Failure("model-refused", phase="load", reason="it has no weights")
    header = builders.header(run_id="20261124-120000-0004")
    with store.create(header).writer() as writer:
        for event in builders.events(
            Planned(plan=builders.plan("compiled")),
            WorkerSpawned(arm=REFERENCE, process=0),
            WorkerEnded(arm=REFERENCE, process=0, outcome=Outcome(refused)),
        ):
            writer.append(event)
    after_refusal = find_unfinished_run(store)
    assert after_refusal is not None
    assert after_refusal.entry.run_id == newest.directory.name


@async_test
async def test_a_stopped_run_is_offered_at_the_start_and_resumed_with_one_key(
    store: Store, tui_context: Context
) -> None:
    run = make_run(store, finished=False)
    unfinished = find_unfinished_run(store)
    assert unfinished is not None
    # The run goes on until the test ends, so the screen shows its progress all the time.
    waiting = (sys.executable, "-c", "import sys; sys.stdin.read()")
    app = AdvisorApp(
        LaunchOptions(answers=Answers(gpu="cpu")),
        dataclasses.replace(tui_context, store=store),
        start_host=lambda run: HostProcess(run, waiting),
    )
    async with running_app(app) as pilot:
        await wait_for_text(pilot, unfinished.notice[:50])
        for size in SIZES:
            await check_screen_at(pilot, size)
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: app.run_controller.session is not None)
        session = app.run_controller.session
        assert session is not None
        assert session.follower.run.directory == run.directory
        assert session.host is not None
        await wait_for(pilot, lambda: isinstance(app.screen, LiveScreen))
        app.action_setup()
        setup = await wait_for_screen(pilot, SetupScreen)
        assert not setup.query_one("#unfinished").display


@async_test
async def test_a_note_can_be_written_filtered_by_and_removed(
    store: Store, tui_context: Context
) -> None:
    run = make_run(store, finished=True)
    make_run(store, finished=False)
    app = AdvisorApp(LaunchOptions(), dataclasses.replace(tui_context, store=store))
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
        await pilot.press("slash", *"old", "enter")
        await wait_for(pilot, lambda: table.row_count == 1)
        await pilot.press("t", "escape")
        assert run.note() == "[/old] driver"
        await pilot.press("t", *["backspace"] * 13, "enter")
        await wait_for(pilot, lambda: table.row_count == 0)
        assert run.note() == ""


def offered(app: AdvisorApp) -> dict[str, str]:
    """Return the labels in the footer by their keys."""
    return {
        active.binding.key: active.binding.description
        for active in app.screen.active_bindings.values()
        if active.binding.show
    }


@async_test
async def test_the_footer_offers_only_keys_with_an_effect(
    store: Store, tui_context: Context
) -> None:
    app = AdvisorApp(LaunchOptions(), dataclasses.replace(tui_context, store=store))
    async with running_app(app) as pilot:
        app.action_history()
        await wait_for_screen(pilot, HistoryScreen)
        await wait_for_text(pilot, EMPTY_MESSAGE[:12])
        row_keys = {"enter", "r", "space", "c", "t", "d"}
        assert not row_keys & offered(app).keys()
        make_run(store, finished=True)
        make_run(store, finished=False)
        await app.pop_screen()
        app.action_history()
        screen = await wait_for_screen(pilot, HistoryScreen)
        await wait_for(pilot, lambda: screen.query_one(Table).row_count == 2)
        assert row_keys - {"r", "c"} <= offered(app).keys()
        assert not {"r", "c", "f"} & offered(app).keys()
        await pilot.press("space", "d", "t")
        assert app.screen is screen, "keys of one row wait while a run is marked"
        assert not {"r", "c", "t", "d", "n", "f"} & offered(app).keys()
        await pilot.press("down")
        assert {"enter", "space", "c"} <= offered(app).keys()
        await pilot.press("up", "space")
        assert {"t", "d", "n"} <= offered(app).keys()


@async_test
async def test_the_second_run_of_a_comparison_can_only_be_chosen(
    store: Store, tui_context: Context
) -> None:
    run = make_run(store, finished=True)
    make_run(store, finished=False)
    app = AdvisorApp(LaunchOptions(), dataclasses.replace(tui_context, store=store))
    async with running_app(app) as pilot:
        await app.push_screen(HistoryScreen(marked=run.directory.name))
        screen = await wait_for_screen(pilot, HistoryScreen)
        await wait_for(pilot, lambda: screen.query_one(Table).row_count == 2)
        assert offered(app)["enter"] == SecondRunTable.COMPARE
        assert not {"r", "space", "c", "t", "d", "n", "f"} & offered(app).keys()
        await pilot.press("enter")
        assert app.screen is screen, "a run is not compared with itself"


def test_a_run_that_failed_before_a_measurement_is_marked(store: Store) -> None:
    failed, stopped = "20261121-130000-0002", make_run(store, finished=False)
    with store.create(builders.header(run_id=failed)).writer() as writer:
        writer.append(builders.events(Planned(plan=builders.plan()))[0])
        going_on = list_items(store)[0]
    items = {item.entry.run_id: item for item in list_items(store)}
    assert items[failed].progress
    assert not items[stopped.directory.name].progress
    assert not going_on.progress


@async_test
async def test_a_run_is_deleted_only_after_a_confirmation_and_not_while_it_is_active(
    store: Store, tui_context: Context
) -> None:
    run, other = make_run(store, finished=True), make_run(store, finished=False)
    app = AdvisorApp(LaunchOptions(), dataclasses.replace(tui_context, store=store))
    async with running_app(app) as pilot:
        app.action_history()
        screen = await wait_for_screen(pilot, HistoryScreen)
        table = screen.query_one(Table)
        await wait_for(pilot, lambda: table.row_count == 2)
        await pilot.press("d")
        await wait_for_screen(pilot, DeleteDialog)
        for size in SIZES:
            assert run.directory.name in await check_screen_at(pilot, size)
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
