"""The JSON Schemas that ship, generated from the types: `python -m advisor.schemas` writes them anew into `rubric/schema`."""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec

from advisor.catalogue import GpusFile, GuidelinesFile, rubric_directory
from advisor.domain.catalogue import Models, Panel, Presets
from advisor.domain.published import Published, Tree
from advisor.domain.rubric import Rubric
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent
from advisor.domain.workflow import Workflow
from advisor.question.answers import Answers
from advisor.report.document import RunDocument

#: File name without its ending -> the type it describes.
SHIPPED: dict[str, Any] = {
    "run": RunDocument,
    "run-header": Header,
    "event": LoggedEvent,
    "options": Answers,
    "criteria": Rubric,
    "workflow": Workflow,
    "models": Models,
    "presets": Presets,
    "gpus": GpusFile,
    "guidelines": GuidelinesFile,
    "published": Published,
    "panel": Panel,
    "tree": Tree,
}


def generate(name: str) -> dict[str, Any]:
    """Return the schema called `name`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **msgspec.json.schema(SHIPPED[name]),
    }


def render(name: str) -> bytes:
    """Return the schema as the file that ships."""
    return (
        msgspec.json.format(msgspec.json.encode(generate(name), order="sorted"), indent=2) + b"\n"
    )


def file_of(name: str, directory: pathlib.Path | None = None) -> pathlib.Path:
    """Return where the schema ships."""
    return (directory or rubric_directory() / "schema") / f"{name}.schema.json"


if __name__ == "__main__":
    for shipped in SHIPPED:
        file_of(shipped).write_bytes(render(shipped))
