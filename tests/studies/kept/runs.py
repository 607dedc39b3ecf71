"""Read the answers of the runs that are kept under `tests/stacks/evidence`."""

from __future__ import annotations

import pathlib

import msgspec

from advisor.ask import catalogue_files
from advisor.decide.answers import answer_from_results
from advisor.domain.answer import Answer

EVIDENCE = pathlib.Path(__file__).parents[2] / "stacks" / "evidence"
NAMES = sorted(file.stem for file in EVIDENCE.glob("*.json"))


def read_run(name: str) -> Answer:
    return msgspec.json.decode((EVIDENCE / f"{name}.json").read_bytes(), type=Answer)


def decide_run(name: str) -> Answer:
    """Return a kept run as `report` opens it."""
    return answer_from_results(read_run(name), catalogue_files.read_shipped())
