"""Deciding on a stored run gives the same bytes every time, in every process."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import recorded_runs

from advisor.decide.decision import decide
from advisor.domain.answer import encode
from advisor.store.runs import Run
from advisor.store.store import Store

DECIDE_SCRIPT = """
import pathlib, sys
from advisor.decide.decision import decide
from advisor.domain.answer import encode
from advisor.store.runs import Run

sys.stdout.write(encode(decide(Run(pathlib.Path(sys.argv[1])))))
"""


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Run:
    return recorded_runs.make_run(Store(tmp_path), finished=True)


def test_another_process_with_another_hash_seed_gives_the_same_bytes(run: Run) -> None:
    command = [sys.executable, "-c", DECIDE_SCRIPT, str(run.directory)]
    answer = subprocess.run(
        command,
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert answer.stdout == encode(decide(run))
