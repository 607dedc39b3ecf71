"""Settings: read, refused, and a chosen theme kept without touching the rest of the file."""

from __future__ import annotations

import importlib
import pathlib
import pkgutil

import pytest
from onscreen import asynchronous, replay, shown, wait_for, wait_for_screen
from textual.binding import Binding
from textual.dom import DOMNode

from advisor import settings, tui
from advisor.context import Context
from advisor.errors import SettingsError
from advisor.store import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions


def test_settings_are_read_or_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config.toml"
    assert settings.read(file) == settings.Settings()
    file.write_text('theme = "p3-high-contrast"\n[keys]\nexport = "ctrl+e"\n')
    assert settings.read(file).keys == {"export": "ctrl+e"}
    file.write_text("colour = 3\n")
    with pytest.raises(SettingsError, match="colour"):
        settings.read(file)
    file.write_text('[keys]\nexprt = "ctrl+e"\n')
    with pytest.raises(SettingsError) as refusal:
        settings.read(file)
    assert refusal.value.next_step == "did you mean export?"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'theme = "dusk"\n'),
        ('theme = "dawn"\n', 'theme = "dusk"\n'),
        (
            '# mine\ntheme = "dawn"  # bright\n\n[keys]\nexport = "x"\n',
            '# mine\ntheme = "dusk"\n\n[keys]\nexport = "x"\n',
        ),
        ('[keys]\nsort = "theme = 3"\n', 'theme = "dusk"\n[keys]\nsort = "theme = 3"\n'),
        ('# only keys\n[keys]\nsort = "s"\n', 'theme = "dusk"\n# only keys\n[keys]\nsort = "s"\n'),
    ],
)
def test_a_theme_is_kept_and_the_rest_of_the_file_stays(
    before: str, after: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "new" / "config.toml"
    if before:
        file.parent.mkdir()
        file.write_text(before)
    settings.keep_theme(file, "dusk")
    assert file.read_text() == after
    assert settings.read(file).theme == "dusk"


def test_every_action_with_a_name_can_be_given_another_key() -> None:
    for module in pkgutil.walk_packages(tui.__path__, "advisor.tui."):
        importlib.import_module(module.name)
    kinds, found = [DOMNode], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("advisor."):
            found |= {
                binding.id
                for binding in getattr(kind, "BINDINGS", ())
                if isinstance(binding, Binding) and binding.id
            }
    assert found == settings.ACTIONS


@asynchronous
async def test_keys_can_be_changed(
    recorded: Run, tui_world: Context, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[keys]\nexport = "ctrl+e"\n')
    app = AdvisorApp(
        LaunchOptions(replay=str(recorded.directory), speed=1000), tui_world, settings_file=file
    )
    async with shown(app) as pilot:
        await wait_for_screen(pilot, "Results")
        await pilot.press("ctrl+e")
        await wait_for_screen(pilot, "Export")


@asynchronous
async def test_a_chosen_theme_holds_the_next_time(
    recorded: Run, tui_world: Context, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "config.toml"
    async with shown(AdvisorApp(LaunchOptions(), tui_world, settings_file=file)) as pilot:
        assert not file.exists()
        pilot.app.theme = "p3-high-contrast"
        await wait_for(pilot, file.exists)
    async with shown(AdvisorApp(LaunchOptions(), tui_world, settings_file=file)) as pilot:
        assert pilot.app.theme == "p3-high-contrast"
    asked = replay(tui_world, recorded, theme="p3-dark")
    async with shown(asked) as pilot:
        assert pilot.app.theme == "p3-dark"
