"""The recorded runs that are part of the program."""

from __future__ import annotations

import pathlib

import msgspec

from advisor.catalogue.rubric_files import rubric_directory
from advisor.domain.answer import Answer


def list_examples() -> dict[pathlib.Path, Answer]:
    """Return the answers of the examples by their files, in the order of their names."""
    files = sorted((rubric_directory() / "examples").glob("*.json"))
    return {file: msgspec.json.decode(file.read_bytes(), type=Answer) for file in files}
