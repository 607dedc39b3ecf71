"""The recorded runs that are part of the program."""

from __future__ import annotations

import pathlib

import msgspec

from advisor.catalogue.rubric_files import rubric_directory


class _Named(msgspec.Struct):
    name: str


class _Question(msgspec.Struct):
    model: _Named


class _Machine(msgspec.Struct):
    gpu: tuple[_Named, ...]


class _Document(msgspec.Struct):
    """The part of a run's document that names what was measured where."""

    question: _Question
    machine: _Machine


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run on a GPU."""

    file: pathlib.Path
    model: str
    device: str


def list_examples() -> list[Example]:
    """Return the examples, by the names of their files."""
    return [_read(file) for file in sorted((rubric_directory() / "examples").glob("*.json"))]


def _read(file: pathlib.Path) -> Example:
    document = msgspec.json.decode(file.read_bytes(), type=_Document)
    return Example(
        file=file, model=document.question.model.name, device=document.machine.gpu[0].name
    )
