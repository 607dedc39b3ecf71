"""What a recipe says is read, also where it does not know whether the text is eager PyTorch's; what goes wrong is told in its words."""

from __future__ import annotations

import json
import os
import sys

import pytest

from advisor.errors import VerificationError
from advisor.probing import rerun

FOUND = {
    "batch_size": 4,
    "unit": "tokens/s",
    "throughput": 80.0,
    "seconds": 0.4,
    "build_seconds": 1.5,
    "versions": {"torch": "2.13.0"},
    "error_against_eager": 0.5,
    "speedup": 2.0,
}


def run(script: str) -> list[rerun.Found]:
    return rerun.run_recipe(script, sys.executable, os.environ, 0.1, 60)


@pytest.mark.parametrize("unknown", ["", "error_against_eager", "speedup"])
def test_what_is_not_known_is_null(unknown: str) -> None:
    said = {**FOUND, **({unknown: None} if unknown else {})}
    (found,) = run(f"print({json.dumps(said)!r})")
    assert {name: getattr(found, name) for name in FOUND} == said


@pytest.mark.parametrize(
    ("script", "words"), [("raise SystemExit('the outputs differ')", "the outputs differ"), ("print('no JSON')", "cannot be read")]
)
def test_a_recipe_that_does_not_get_through_is_told(script: str, words: str) -> None:
    with pytest.raises(VerificationError, match=words):
        run(script)
