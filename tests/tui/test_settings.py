"""The effects of the settings file on the terminal program: keys and theme."""

from __future__ import annotations

import importlib
import pathlib
import pkgutil

from onscreen import (
    async_test,
    replay_app,
    running_app,
    wait_for,
    wait_for_screen,
)
from textual.binding import Binding
from textual.dom import DOMNode

from advisor import settings, tui
from advisor.context import Context
from advisor.store.runs import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.launch import LaunchOptions
from advisor.tui.questions import FileDialog
from advisor.tui.screens.results import ResultsScreen


def test_the_settings_know_the_ids_of_all_bindings() -> None:
    for module in pkgutil.walk_packages(tui.__path__, "advisor.tui."):
        importlib.import_module(module.name)
    kinds, ids = [DOMNode], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("advisor."):
            ids |= {
                binding.id
                for binding in getattr(kind, "BINDINGS", ())
                if isinstance(binding, Binding) and binding.id
            }
    assert ids == settings.ACTIONS


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
        await wait_for_screen(pilot, FileDialog)


@async_test
async def test_a_chosen_theme_is_used_at_the_next_start(
    sample_run: Run, tui_context: Context, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "config.toml"
    async with running_app(AdvisorApp(LaunchOptions(), tui_context, settings_file=file)) as pilot:
        assert not file.exists()
        pilot.app.theme = "p3-high-contrast"
        await wait_for(pilot, file.exists)
    async with running_app(AdvisorApp(LaunchOptions(), tui_context, settings_file=file)) as pilot:
        assert pilot.app.theme == "p3-high-contrast"
    async with running_app(replay_app(tui_context, sample_run, theme="p3-dark")) as pilot:
        assert pilot.app.theme == "p3-dark"
