"""Copies of the TOML files that ship, and edits of them."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import pytest

from advisor.ask import catalogue_files

Edit = Callable[[str, str, str], None]


@pytest.fixture
def catalogue(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the files that ship."""
    directory = tmp_path / "catalogue"
    shutil.copytree(
        catalogue_files.catalogue_directory(),
        directory,
        ignore=shutil.ignore_patterns("__pycache__", "schema"),
    )
    return directory


@pytest.fixture
def edit(catalogue: pathlib.Path) -> Edit:
    """Replaces one piece of text in one of the files."""

    def replace(file: str, old: str, new: str) -> None:
        text = (catalogue / file).read_text()
        assert old in text, "the shipped file has changed; update the test"
        (catalogue / file).write_text(text.replace(old, new, 1))

    return replace
