"""Stored runs in the terminal program: one that was not finished is offered at the start; notes and deletion in the history."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable

import pytest
from onscreen import SIZES, asynchronous, lines_of, shown, shown_at, wait_for, wait_for_screen
from recorded_runs import make_run

from advisor.context import Context
from advisor.question.answers import Answers
from advisor.store import Run, Store
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.run.host_process import Host
from advisor.tui.run.unfinished import find_waiting
from advisor.tui.screens.live import Live
from advisor.tui.widgets.table import Table


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Store:
    return Store(tmp_path / "stored")


def test_the_newest_run_that_was_not_finished_waits_unless_it_is_another_machine_s_or_a_fleet_s(
    store: Store, tmp_path: pathlib.Path
) -> None:
    assert find_waiting(store) is None
    assert not (tmp_path / "stored").exists()
    make_run(store, finished=True)
    make_run(store, finished=False, run_id="20261122-120000-0003", imported=True)
    make_run(store, finished=False, run_id="20261123-120000-f1ee-0001-1")
    assert find_waiting(store) is None
    make_run(store, finished=False)
    newest = make_run(store, finished=False, run_id="20261121-130000-0002")
    waiting = find_waiting(store)
    assert waiting is not None
    assert waiting.run_id == newest.directory.name
    assert waiting.words.startswith("Stopped: run 130000-0002,")
    assert waiting.words.endswith("; ctrl+g goes on; 1 more in the history")
    with newest.writer():
        goes_on = find_waiting(store)
    assert goes_on is not None
    assert "ctrl+g shows it" in goes_on.words


@asynchronous
async def test_a_run_that_was_stopped_is_offered_at_the_start_and_gone_on_with_by_one_key(
    store: Store, tui_world: Context, fake_host: Callable[[Run], Host]
) -> None:
    run = make_run(store, finished=False)
    world = dataclasses.replace(tui_world, store=store)
    async with shown(
        AdvisorApp(LaunchOptions(answers=Answers(gpu="cpu")), world, start_host=fake_host)
    ) as pilot:
        app = pilot.app
        assert isinstance(app, AdvisorApp)
        await wait_for(pilot, lambda: "Stopped: run" in lines_of(pilot))
        for size in SIZES:
            await shown_at(pilot, size)
            await wait_for(pilot, lambda: "^g Go on" in lines_of(pilot))
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: app.runs.session is not None)
        session = app.runs.session
        assert session is not None
        assert session.follower.run.directory == run.directory
        assert session.host is not None
        await wait_for(pilot, lambda: isinstance(app.screen, Live))
        app.action_ask_anew()
        await wait_for_screen(pilot, "Setup")
        assert "Stopped: run" not in lines_of(pilot)


@asynchronous
async def test_a_note_is_written_shown_found_and_removed(store: Store, tui_world: Context) -> None:
    run = make_run(store, finished=True)
    make_run(store, finished=False)
    async with shown(
        AdvisorApp(LaunchOptions(), dataclasses.replace(tui_world, store=store))
    ) as pilot:
        pilot.app.action_history()  # type: ignore[attr-defined]
        await wait_for(pilot, lambda: run.directory.name in lines_of(pilot))
        await pilot.press("t", *"[/old] driver", "enter")
        await wait_for(pilot, lambda: "Note: [/old] driver" in lines_of(pilot))
        assert run.note() == "[/old] driver"
        await pilot.resize_terminal(140, 40)
        await wait_for(pilot, lambda: "finished  [/old] driver" in lines_of(pilot))
        await pilot.press("slash", *"old", "enter")
        await wait_for(pilot, lambda: "stopped" not in lines_of(pilot))
        await pilot.press("t", "escape")
        assert run.note() == "[/old] driver"
        await pilot.press("t", *["backspace"] * 13, "enter")
        await wait_for(pilot, lambda: "nothing fits the filter" in lines_of(pilot))
        assert run.note() == ""


@asynchronous
async def test_a_run_is_removed_only_after_asking_and_never_while_it_goes_on(
    store: Store, tui_world: Context
) -> None:
    run, other = make_run(store, finished=True), make_run(store, finished=False)
    async with shown(
        AdvisorApp(LaunchOptions(), dataclasses.replace(tui_world, store=store))
    ) as pilot:
        pilot.app.action_history()  # type: ignore[attr-defined]
        await wait_for(pilot, lambda: run.directory.name in lines_of(pilot))
        await pilot.press("d")
        await wait_for_screen(pilot, "Deleting")
        for size in SIZES:
            await shown_at(pilot, size)
            await wait_for(pilot, lambda: run.directory.name in lines_of(pilot))
        await pilot.press("escape")
        await wait_for_screen(pilot, "History")
        assert run.directory.exists()
        with run.writer():
            await pilot.press("d", "y")
            await wait_for(pilot, lambda: "another process works" in lines_of(pilot))
        assert run.directory.exists()
        await pilot.press("d", "y")
        await wait_for(pilot, lambda: not run.directory.exists())
        await wait_for(pilot, lambda: pilot.app.screen.query_one(Table).row_count == 1)
        assert pilot.app.screen.query_one(Table).key_at_cursor() == other.directory.name
