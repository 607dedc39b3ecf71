"""What a user can do with a finished answer: its code, its verification and its report."""

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
)
from textual.widgets import Input

from advisor.context import Context
from advisor.decide.decision import decide
from advisor.report import found_recipe, recipe_text
from advisor.store.runs import Run
from advisor.tui import app as terminal_app
from advisor.tui.questions import ChoiceDialog, LineDialog
from advisor.tui.screens.results import ResultsScreen


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
        monkeypatch.setattr(app, "suspend", contextlib.nullcontext)
        monkeypatch.setattr("builtins.input", lambda _: "")
        await pilot.press("down", "c")
        assert app.screen is results
        answer, arm = decide(recorded), results.answer.document.recommendation.arm
        script = recipe_text.render_short(answer, *found_recipe.choose(answer, recorded, arm))
        assert script in capfd.readouterr().out
        monkeypatch.setattr(app.run_controller, "refuse_if_busy", lambda: True)
        await pilot.press("v")
        await pilot.pause()
        assert app.screen is results
        await pilot.press("w", "right")
        await wait_for(pilot, lambda: results.is_explored)
        await pilot.press("e")
        field = (await wait_for_screen(pilot, LineDialog)).query_one(Input)
        assert field.value.endswith("-explored.html")
        file = tmp_path / "report.md"
        field.value = str(file)
        await pilot.press("enter")
        await wait_for(pilot, file.exists)
        assert results.answer.document.recommendation is not None
        assert results.answer.document.recommendation.arm in file.read_text()
        await wait_for_screen(pilot, ResultsScreen)


@pytest.mark.parametrize("status", [0, 1])
@async_test
async def test_a_command_runs_in_the_terminal_after_a_confirmation(
    status: int, tui_context: Context, recorded: Run, tmp_path: pathlib.Path
) -> None:
    asked, results = tmp_path / "asked", []
    script = f"import sys; open({str(asked)!r}, 'w').write(repr(sys.argv)); sys.exit({status})"
    app = replay_app(tui_context, recorded)
    async with running_app(app) as pilot:
        await wait_for_screen(pilot, ResultsScreen)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(terminal_app, "ADVISOR_COMMAND", (sys.executable, "-c", script))
            patch.setattr(app, "suspend", contextlib.nullcontext)
            patch.setattr("builtins.input", lambda _: "")
            for key, is_asked in (("escape", False), ("y", True)):
                app.ask_to_run("Do it?", "", ["verify", "a b"], lambda: results.append(1))
                await wait_for_screen(pilot, ChoiceDialog)
                assert "p3-advisor verify a b" in screen_text(pilot)
                await pilot.press(key)
                await wait_for_screen(pilot, ResultsScreen)
                assert asked.exists() is is_asked
    assert asked.read_text() == "['-c', 'verify', 'a b']"
    assert results == ([1] if status == 0 else [])
