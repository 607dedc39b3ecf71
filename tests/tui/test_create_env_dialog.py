"""The dialog that creates the environment of a workflow."""

from __future__ import annotations

import os
import pathlib
import sys

import psutil
import pytest
from onscreen import (
    async_test,
    check_screen_at,
    go_to_step,
    key_hints,
    running_app,
    screen_text,
    wait_for,
    wait_for_screen,
    wait_for_text,
)

from advisor.context import Context
from advisor.question.answers import Answers
from advisor.store.store import Store
from advisor.system.home import HOME_VARIABLE
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs.create_env_dialog import CreateEnvDialog
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.setup import SetupScreen


def app_and_dialog(tui_context: Context, script: str) -> tuple[AdvisorApp, CreateEnvDialog]:
    """Return an app, and a dialog that runs a Python script instead of the installer."""
    app = AdvisorApp(LaunchOptions(answers=Answers(gpu="cpu")), tui_context)
    dialog = CreateEnvDialog("Rare", "1 MiB", (sys.executable, "-c", script), os.environ)
    return app, dialog


@async_test
async def test_output_is_shown_without_markup_and_success_is_returned(
    tui_context: Context, tmp_path: pathlib.Path
) -> None:
    release = tmp_path / "release"
    app, dialog = app_and_dialog(
        tui_context,
        "import pathlib, sys, time\n"
        "line = 'p3-advisor: rare: [red]making[/red] it \\x1b[31mnow'\n"
        "print(line, file=sys.stderr, flush=True)\n"
        f"while not pathlib.Path({str(release)!r}).exists(): time.sleep(0.01)\n",
    )
    results: list[bool | None] = []
    async with running_app(app) as pilot:
        await app.push_screen(dialog, results.append)
        await wait_for_screen(pilot, CreateEnvDialog)
        await check_screen_at(pilot, (80, 24))
        assert "create" in key_hints(pilot)
        await pilot.press("y")
        await wait_for_text(pilot, "rare: [red]making[/red] it now")
        await wait_for_text(pilot, "s so far")
        await pilot.press("y")
        release.touch()
        await wait_for_screen(pilot, SetupScreen)
    assert results == [True]


@async_test
async def test_an_interrupted_installer_can_clean_up(
    tui_context: Context, tmp_path: pathlib.Path
) -> None:
    created = tmp_path / "created"
    app, dialog = app_and_dialog(
        tui_context,
        "import pathlib, time\n"
        f"created = pathlib.Path({str(created)!r})\n"
        "try:\n    created.touch(); time.sleep(3600)\n"
        "finally:\n    created.unlink(); print('cleaned up')\n",
    )
    async with running_app(app) as pilot:
        await app.push_screen(dialog)
        await wait_for_screen(pilot, CreateEnvDialog)
        await pilot.press("y")
        await wait_for(pilot, created.exists)
        await pilot.press("escape")
        await wait_for(pilot, lambda: dialog.has_ended)
        await wait_for_text(pilot, "cleaned up")
        assert not created.exists()
        await pilot.press("escape")
        await wait_for_screen(pilot, SetupScreen)


@async_test
async def test_the_installer_ends_with_the_app(
    tui_context: Context, tmp_path: pathlib.Path
) -> None:
    pid_file = tmp_path / "pid"
    app, dialog = app_and_dialog(
        tui_context,
        "import os, pathlib, time\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(3600)\n",
    )
    async with running_app(app) as pilot:
        await app.push_screen(dialog)
        await wait_for_screen(pilot, CreateEnvDialog)
        await pilot.press("y")
        await wait_for(pilot, lambda: pid_file.exists() and pid_file.read_text())
        process = psutil.Process(int(pid_file.read_text()))
        await pilot.press("ctrl+q")
    assert not psutil.pid_exists(process.pid)


@pytest.mark.slow
@async_test
async def test_the_plan_offers_to_create_an_environment_and_a_failure_is_explained(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    context = Context(
        environment={**os.environ, HOME_VARIABLE: str(tmp_path)}, store=Store(tmp_path)
    )
    answers = Answers(gpu="cpu", workflows="openvino")
    async with running_app(AdvisorApp(LaunchOptions(answers=answers), context), (100, 30)) as pilot:
        await go_to_step(pilot, 3)
        await wait_for_text(pilot, "not-installed")
        assert "create_env" not in key_hints(pilot)
        while "openvino==" not in screen_text(pilot):
            await pilot.press("down")
        assert "create_env" in key_hints(pilot)
        await pilot.press("m")
        dialog = await wait_for_screen(pilot, CreateEnvDialog)
        await pilot.press("y")
        await wait_for(pilot, lambda: dialog.has_ended)
        await check_screen_at(pilot, (80, 24))
        assert "No solution found" in screen_text(pilot)
        assert "next: " in screen_text(pilot)
        await pilot.press("escape")
        await wait_for_screen(pilot, SetupScreen)
    assert not [*(tmp_path / "environments").glob("openvino-*")]
