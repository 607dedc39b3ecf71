"""Every model of the panel of the studies opens and runs."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(600)]

TESTS = pathlib.Path(__file__).parents[1]
STUDIES = TESTS / "studies"
#: Opens each model as a worker does, and computes its reference outputs.
OPEN_ALL = """
import json, pathlib, sys, tempfile

sys.path[:0] = json.loads(sys.argv[1])
import msgspec, torch, workers
from panel import read_panel
from probes.subjects.by_request import open_torch_subject

torch.inference_mode().__enter__()
for model in read_panel():
    with tempfile.TemporaryDirectory() as directory:
        opened = open_torch_subject(
            workers.make_request(
                pathlib.Path("pytorch_eager.py"),
                pathlib.Path(directory),
                subject=msgspec.to_builtins(model.to_model()),
                batch_sizes=[2],
                input_tokens=16,
            )
        )
        inputs = opened.inputs(2, 0)
        outputs = next(opened.reference([inputs])[1])
        assert all(output.shape[0] == 2 for output in outputs), model.id
        assert opened.parameters < 1_000_000, model.id
        print(model.id)
"""


def test_every_model_of_the_panel_opens_and_runs() -> None:
    paths = [str(STUDIES), str(TESTS), str(TESTS.parent)]
    command = [sys.executable, "-W", "ignore", "-c", OPEN_ALL, json.dumps(paths)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert (STUDIES / "panel.toml").read_text().count("[[model]]") == len(
        answer.stdout.splitlines()
    )
