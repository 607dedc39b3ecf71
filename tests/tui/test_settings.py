"""The settings file of the user."""

from __future__ import annotations

import pathlib

import pytest

from advisor.errors import SettingsError
from advisor.tui import launch


def test_a_settings_file_is_read_or_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config.toml"
    assert launch.read_settings(file) == launch.Settings()
    file.write_text('theme = "p3-high-contrast"\n[keys]\nexport = "ctrl+e"\n')
    assert launch.read_settings(file).keys == {"export": "ctrl+e"}
    file.write_text("colour = 3\n")
    with pytest.raises(SettingsError, match="colour"):
        launch.read_settings(file)


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
def test_saving_a_theme_keeps_the_rest_of_the_file(
    before: str, after: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "new" / "config.toml"
    if before:
        file.parent.mkdir()
        file.write_text(before)
    launch.save_theme(file, "dusk")
    assert file.read_text() == after
    assert launch.read_settings(file).theme == "dusk"
