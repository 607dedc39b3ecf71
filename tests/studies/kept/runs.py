"""Read the answers of the runs that are kept under `tests/stacks/evidence`."""

from __future__ import annotations

import pathlib

import msgspec

from advisor.domain.answer import Answer

EVIDENCE = pathlib.Path(__file__).parents[3] / "tests" / "stacks" / "evidence"


def read_run(file: str) -> Answer:
    return msgspec.json.decode((EVIDENCE / file).read_bytes(), type=Answer)
