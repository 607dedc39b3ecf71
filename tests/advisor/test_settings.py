"""The settings file of the user."""

from __future__ import annotations

import pathlib

import pytest

from advisor import settings
from advisor.errors import SettingsError


def test_a_settings_file_is_read_or_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config.toml"
    assert settings.read(file) == settings.Settings()
    file.write_text('theme = "p3-high-contrast"\n[keys]\nexport = "ctrl+e"\n')
    assert settings.read(file).keys == {"export": "ctrl+e"}
    file.write_text("colour = 3\n")
    with pytest.raises(SettingsError, match="colour"):
        settings.read(file)


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
    settings.save_theme(file, "dusk")
    assert file.read_text() == after
    assert settings.read(file).theme == "dusk"
