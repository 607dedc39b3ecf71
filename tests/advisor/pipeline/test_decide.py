"""The same stored run gives the same bytes, whoever decides and how often; nothing but the stored measurements goes in."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import builders
import pytest
import recorded_runs

from advisor.errors import RunFileError
from advisor.pipeline.decision import decide
from advisor.report import document
from advisor.store import Run, Store

DECIDE = """
import pathlib, sys
from advisor.pipeline.decision import decide
from advisor.report import document
from advisor.store import Run

run = Run(pathlib.Path(sys.argv[1]))
decision = decide(run)
sys.stdout.write(document.encode(document.compose(decision)))
"""


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Run:
    return recorded_runs.make_run(Store(tmp_path), finished=True)


def decided(run: Run) -> str:
    decision = decide(run)
    return document.encode(document.compose(decision))


def test_deciding_again_gives_the_same_bytes(run: Run) -> None:
    assert decided(run) == decided(run)


def test_another_process_gives_the_same_bytes_in_whatever_order_it_hashes(run: Run) -> None:
    command = [sys.executable, "-c", DECIDE, str(run.directory)]
    answer = subprocess.run(
        command,
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert answer.stdout == decided(run)


def test_a_run_of_which_a_line_is_missing_is_told(run: Run) -> None:
    file = run.directory / "events.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for missing in range(len(lines) - 1):
        file.write_bytes(b"".join(lines[:missing] + lines[missing + 1 :]))
        with pytest.raises(RunFileError, match="damaged"):
            decide(run)


def test_other_weights_change_the_advice_and_not_the_measurements(run: Run) -> None:
    one, two = (
        decide(run),
        decide(run, priorities=builders.priorities(performance=90, productivity=5, portability=5)),
    )
    assert one.results == two.results
    assert one.scored != two.scored
