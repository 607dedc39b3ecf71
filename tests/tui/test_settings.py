"""The effects of the settings file on the terminal program: keys and theme."""

from __future__ import annotations

import pathlib

import pytest
from onscreen import (
    async_test,
    running_app,
    wait_for,
    wait_for_screen,
)

from advisor.context import Context
from advisor.errors import SettingsError
from advisor.store.runs import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import LineDialog
from advisor.tui.launch import LaunchOptions, check_actions
from advisor.tui.screens.results import ResultsScreen


def test_an_unknown_action_in_the_settings_is_an_error_with_the_known_ones() -> None:
    check_actions({"export": "ctrl+e", "quit": "ctrl+x", "verify": "v"})
    with pytest.raises(SettingsError) as refusal:
        check_actions({"exprt": "ctrl+e"})
    assert refusal.value.next_step == "did you mean export?"


@async_test
async def test_the_settings_change_keys(
    sample_run: Run, tui_context: Context, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[keys]\nexport = "ctrl+e"\n')
    app = AdvisorApp(
        LaunchOptions(replay=str(sample_run.directory), speed=1000), tui_context, settings_file=file
    )
    async with running_app(app) as pilot:
        await wait_for_screen(pilot, ResultsScreen)
        await pilot.press("ctrl+e")
        await wait_for_screen(pilot, LineDialog)


@async_test
async def test_a_chosen_theme_is_used_at_the_next_start(
    tui_context: Context, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "config.toml"
    async with running_app(AdvisorApp(LaunchOptions(), tui_context, settings_file=file)) as pilot:
        assert not file.exists()
        pilot.app.theme = "p3-high-contrast"
        await wait_for(pilot, file.exists)
    for chosen, theme in (("", "p3-high-contrast"), ("p3-dark", "p3-dark")):
        app = AdvisorApp(LaunchOptions(theme=chosen), tui_context, settings_file=file)
        async with running_app(app):
            assert app.theme == theme
