"""The plan offers to create the environment of a workflow."""

from __future__ import annotations

import contextlib
import os
import pathlib

import pytest
from onscreen import (
    async_test,
    check_screen_at,
    go_to_step,
    key_hints,
    running_app,
    screen_text,
    wait_for_screen,
    wait_for_text,
)

from advisor.ask.run_options import RunOptions
from advisor.context import Context
from advisor.store.store import Store
from advisor.system import HOME_VARIABLE
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import ChoiceDialog
from advisor.tui.launch import LaunchOptions
from advisor.tui.screens.setup import SetupScreen


@pytest.mark.slow
@async_test
async def test_the_plan_offers_to_create_an_environment_and_a_failure_is_explained(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    monkeypatch.setattr(AdvisorApp, "suspend", lambda _: contextlib.nullcontext())
    monkeypatch.setattr("builtins.input", lambda _: "")
    context = Context(
        environment={**os.environ, HOME_VARIABLE: str(tmp_path)}, store=Store(tmp_path)
    )
    run_options = RunOptions(gpu="cpu", workflows="openvino")
    async with running_app(
        AdvisorApp(LaunchOptions(run_options=run_options), context), (100, 30)
    ) as pilot:
        await go_to_step(pilot, 3)
        await wait_for_text(pilot, "not-installed")
        assert "create_env" not in key_hints(pilot)
        while "openvino==" not in screen_text(pilot):
            await pilot.press("down")
        assert "create_env" in key_hints(pilot)
        await pilot.press("m")
        await wait_for_screen(pilot, ChoiceDialog)
        await check_screen_at(pilot, (80, 24))
        assert "p3-advisor env create openvino" in screen_text(pilot)
        await pilot.press("y")
        await wait_for_screen(pilot, SetupScreen)
    printed = capfd.readouterr().err
    assert "No solution found" in printed
    assert "next: " in printed
    assert not [*(tmp_path / "environments").glob("openvino-*")]
