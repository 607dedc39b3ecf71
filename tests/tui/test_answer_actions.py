"""What a user can do with finished answers, also with keys that leave the terminal to a command."""

from __future__ import annotations

import contextlib
import pathlib
import sys

import pytest
from onscreen import (
    async_test,
    replay_app,
    running_app,
    screen_text,
    wait_for,
    wait_for_screen,
    wait_for_text,
)
from recorded_runs import make_run
from textual.widgets import Input

from advisor.context import Context
from advisor.decide.decision import decide
from advisor.report import found_recipe, recipe_text
from advisor.store.runs import Run
from advisor.tui import app as terminal_app
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import ChoiceDialog, LineDialog
from advisor.tui.launch import LaunchOptions
from advisor.tui.screens.history import HistoryScreen
from advisor.tui.screens.home import list_examples
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.table import Table


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run commands without a terminal to leave and to return from."""
    monkeypatch.setattr(AdvisorApp, "suspend", lambda _: contextlib.nullcontext())
    monkeypatch.setattr("builtins.input", lambda _: "")


@async_test
async def test_c_prints_the_code_and_e_writes_the_report_that_is_shown_and_v_waits_for_a_run(
    tui_context: Context,
    recorded: Run,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    app = replay_app(tui_context, recorded)
    async with running_app(app) as pilot:
        results = await wait_for_screen(pilot, ResultsScreen)
        assert results.answer.document.recommendation is not None
        await pilot.press("down", "c")
        assert app.screen is results
        answer, arm = decide(recorded), results.answer.document.recommendation.arm
        script = recipe_text.render_short(answer, *found_recipe.choose(answer, recorded, arm))
        assert script in capfd.readouterr().out
        monkeypatch.setattr(app.run_controller, "refuse_if_busy", lambda: True)
        await pilot.press("v")
        await pilot.pause()
        assert app.screen is results
        await pilot.press("2", "right")
        await wait_for(pilot, lambda: results.is_explored)
        await pilot.press("e")
        field = (await wait_for_screen(pilot, LineDialog)).query_one(Input)
        assert field.value.endswith("-explored.html")
        file = tmp_path / "report.md"
        field.value = str(file)
        await pilot.press("enter")
        await wait_for(pilot, file.exists)
        await wait_for_screen(pilot, ResultsScreen)
        written = file.read_text()
        await pilot.press("e")
        again = await wait_for_screen(pilot, LineDialog)
        again.query_one(Input).value = str(file)
        file.write_text("mine")
        await pilot.press("enter")
        await wait_for_text(pilot, "not written")
        assert file.read_text() == "mine", "no file is overwritten"
        await pilot.press("escape")
        assert results.answer.document.recommendation is not None
        assert results.answer.document.recommendation.arm in written
        await wait_for_screen(pilot, ResultsScreen)


@async_test
async def test_c_prints_the_code_of_a_file_and_keys_of_stored_runs_say_why_they_do_nothing(
    tui_context: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    shipped = Context(environment=tui_context.environment, store=tui_context.store)
    (example,) = list_examples()
    app = AdvisorApp(LaunchOptions(open=str(example)), shipped)
    async with running_app(app) as pilot:
        results = await wait_for_screen(pilot, ResultsScreen)
        await pilot.press("c")
        assert "vllm.LLM(" in capfd.readouterr().out
        for key, action in (("m", "measure_again"), ("v", "verify"), ("u", "undo")):
            await pilot.press(key)
            await pilot.pause()
            (notice,) = app._notifications
            assert results.refusal_of(action) in notice.message
            app.clear_notifications()
    assert app.exit_message() == ""


@async_test
async def test_a_command_runs_in_the_terminal_after_a_confirmation(
    tui_context: Context, recorded: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, succeeded = replay_app(tui_context, recorded), []
    async with running_app(app) as pilot:
        await wait_for_screen(pilot, ResultsScreen)
        for status in (0, 1):
            asked = tmp_path / f"asked-{status}"
            script = (
                f"import sys; open({str(asked)!r}, 'w').write(repr(sys.argv)); sys.exit({status})"
            )
            monkeypatch.setattr(terminal_app, "ADVISOR_COMMAND", (sys.executable, "-c", script))
            for key, is_asked in (("escape", False), ("y", True)):
                app.ask_to_run("Do it?", "", ["verify", "a b"], lambda: succeeded.append(1))
                await wait_for_screen(pilot, ChoiceDialog)
                assert "p3-advisor verify a b" in screen_text(pilot)
                await pilot.press(key)
                await wait_for_screen(pilot, ResultsScreen)
                assert asked.exists() is is_asked
            assert asked.read_text() == "['-c', 'verify', 'a b']"
    assert succeeded == [1]


@async_test
async def test_b_in_the_results_asks_for_the_second_run_and_c_compares(
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
        assert not {"r", "c", "t", "d", "n"} & history.active_bindings.keys()
        await pilot.press("c")
        assert app.screen is history, "a run is not compared with itself"
        table.move_cursor_to(second.directory.name)
        await pilot.press("space", "c")
    before, after = capfd.readouterr().out.splitlines()[:2]
    assert first.directory.name in before
    assert second.directory.name in after
