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


def code_of(run: Run, arm: str) -> str:
    answer = decide(run)
    return recipe_text.render_short(answer, *found_recipe.choose(answer, run, arm))


@async_test
async def test_c_prints_the_code_of_the_arm(
    tui_context: Context,
    recorded: Run,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    app = replay_app(tui_context, recorded)
    async with running_app(app) as pilot:
        results = await wait_for_screen(pilot, ResultsScreen)
        assert results.answer.document.recommendation is not None
        monkeypatch.setattr(app, "suspend", contextlib.nullcontext)
        monkeypatch.setattr("builtins.input", lambda _: "")
        await pilot.press("c")
        assert app.screen is results
    script = code_of(recorded, results.answer.document.recommendation.arm)
    assert script in capfd.readouterr().out


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


@async_test
async def test_v_does_not_run_while_a_run_goes_on(
    tui_context: Context, recorded: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = replay_app(tui_context, recorded)
    async with running_app(app) as pilot:
        await wait_for_screen(pilot, ResultsScreen)
        monkeypatch.setattr(app.run_controller, "refuse_if_busy", lambda: True)
        await pilot.press("v")
        await pilot.pause()
        assert isinstance(app.screen, ResultsScreen)


@async_test
async def test_e_writes_a_report_of_the_answer_that_is_shown(
    tui_context: Context, recorded: Run, tmp_path: pathlib.Path
) -> None:
    async with running_app(replay_app(tui_context, recorded)) as pilot:
        results = await wait_for_screen(pilot, ResultsScreen)
        await pilot.press("w", "right")
        await wait_for(pilot, lambda: results.is_explored)
        await pilot.press("e")
        dialog = await wait_for_screen(pilot, LineDialog)
        field = dialog.query_one(Input)
        assert field.value.endswith("-explored.html")
        file = tmp_path / "report.md"
        field.value = str(file)
        await pilot.press("enter")
        await wait_for(pilot, file.exists)
        assert results.answer.document.recommendation is not None
        assert results.answer.document.recommendation.arm in file.read_text()
        await wait_for_screen(pilot, ResultsScreen)
