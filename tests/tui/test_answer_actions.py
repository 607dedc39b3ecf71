"""What a user can do with a finished answer: its code, its verification and its report."""

from __future__ import annotations

import base64
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
from textual.widgets import Input

from advisor.context import Context
from advisor.pipeline.decision import decide
from advisor.report.recipes import found_recipe, server_recipe
from advisor.store.runs import Run
from advisor.tui import answer_actions
from advisor.tui.dialogs.create_env_dialog import VerifyDialog
from advisor.tui.dialogs.questions import CodeDialog, FileDialog
from advisor.tui.screens.results import ResultsScreen

SUCCEEDS, FAILS = "", "sys.exit(1)"


def code_of(run: Run, arm: str) -> str:
    answer = decide(run)
    return server_recipe.render_short(answer, *found_recipe.choose(answer, run, arm))


@async_test
async def test_r_shows_the_code_of_the_arm_which_is_copied_or_written(
    tui_context: Context, recorded: Run, tmp_path: pathlib.Path
) -> None:
    app = replay_app(tui_context, recorded)
    async with running_app(app) as pilot:
        results = await wait_for_screen(pilot, ResultsScreen)
        assert results.answer.recommendation is not None
        script = code_of(recorded, results.answer.recommendation.arm)
        await pilot.press("r")
        await wait_for_screen(pilot, CodeDialog)
        assert script.splitlines()[0] in screen_text(pilot)
        written: list[str] = []
        driver = app._driver
        assert driver is not None
        driver.write = written.append  # type: ignore[method-assign,assignment]
        await pilot.press("y")
        encoded = base64.b64encode(script.encode()).decode()
        assert f"\x1b]52;c;{encoded}\a" in "".join(written)
        del driver.write
        file = tmp_path / "serve.py"
        await pilot.press("w")
        dialog = await wait_for_screen(pilot, FileDialog)
        dialog.query_one(Input).value = str(file)
        await pilot.press("enter")
        await wait_for(pilot, file.exists)
        assert file.read_text() == script
        await wait_for_screen(pilot, CodeDialog)
        await pilot.press("escape")
        await wait_for_screen(pilot, ResultsScreen)


@pytest.mark.parametrize(
    ("ending", "state"), [(SUCCEEDS, VerifyDialog.SUCCEEDED), (FAILS, VerifyDialog.FAILED)]
)
@async_test
async def test_v_runs_the_verification_of_the_arm_after_a_confirmation(
    ending: str,
    state: str,
    tui_context: Context,
    recorded: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = f"import sys; print('asked', *sys.argv[1:]); {ending}"
    monkeypatch.setattr(answer_actions, "ADVISOR_COMMAND", (sys.executable, "-c", script))
    async with running_app(replay_app(tui_context, recorded)) as pilot:
        results = await wait_for_screen(pilot, ResultsScreen)
        assert results.answer.recommendation is not None
        arm = results.answer.recommendation.arm
        await pilot.press("v")
        await wait_for_screen(pilot, VerifyDialog)
        command = f"verify {recorded.directory.name} --workflow {arm}"
        assert f"p3-advisor {command}" in screen_text(pilot)
        await pilot.press("y")
        await wait_for_text(pilot, f"asked {command}")
        await wait_for_text(pilot, state.split(";", maxsplit=1)[0])
        await pilot.press("escape")
        await wait_for_screen(pilot, ResultsScreen)


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
        dialog = await wait_for_screen(pilot, FileDialog)
        field = dialog.query_one(Input)
        assert field.value.endswith("-explored.html")
        file = tmp_path / "report.md"
        field.value = str(file)
        await pilot.press("enter")
        await wait_for(pilot, file.exists)
        assert results.answer.recommendation is not None
        assert results.answer.recommendation.arm in file.read_text()
        await wait_for_screen(pilot, ResultsScreen)
