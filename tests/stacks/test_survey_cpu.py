"""The survey's panel: every model opens and runs, and a real stack builds one of them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import builders
import msgspec
import pytest

from advisor.catalogue import rubric_files
from advisor.context import Context
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import DraftRun, create, propose
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store.store import Store

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

#: Opens each model as a worker does, and computes its reference outputs.
OPEN_ALL = """
import json, pathlib, sys, tempfile

sys.path[:0] = json.loads(sys.argv[1])
import torch, workers
from probes.subjects.torch_subject import open_torch_subject

torch.inference_mode().__enter__()
for subject in json.loads(sys.argv[2]):
    with tempfile.TemporaryDirectory() as directory:
        workflow = pathlib.Path("pytorch_eager.py")
        opened = open_torch_subject(
            workers.make_request(
                workflow, pathlib.Path(directory), subject=subject, batch_sizes=[2], input_tokens=16
            )
        )
        inputs = opened.inputs(2, 0)
        outputs = next(opened.reference([inputs])[1])
        assert all(output.shape[0] == 2 for output in outputs), subject
        assert opened.parameters < 1_000_000, subject
        print(subject["name"])
"""


def test_every_model_of_the_panel_opens_and_runs() -> None:
    panel = builders.shipped_catalogue().panel
    subjects = [model.to_model() for model in panel.surveyed]
    paths = [str(pathlib.Path(__file__).parents[1]), str(rubric_files.probes_directory().parent)]
    encoded = [msgspec.json.encode(value).decode() for value in (paths, subjects)]
    command = [sys.executable, "-W", "ignore", "-c", OPEN_ALL, *encoded]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert len(answer.stdout.splitlines()) == len(panel.surveyed)


@pytest.mark.long
def test_a_real_stack_builds_and_checks_a_model_of_the_panel(tmp_path: pathlib.Path) -> None:
    world = Context(environment=dict(os.environ), store=Store(tmp_path))
    answers = Answers(
        gpu="cpu", survey=True, batch_sizes="1", budget="1", workflows="onnxruntime-cpu/host"
    )
    proposal = propose(answers, world)
    panel = proposal.catalogue.panel
    small = msgspec.structs.replace(
        panel, model=tuple(model for model in panel.model if model.id == "recommender")
    )
    known = msgspec.structs.replace(proposal.catalogue, panel=small)
    run = create(DraftRun(known, proposal.machine, proposal.question, proposal.plan), world)
    for _ in execute(run, world):
        pass
    surveys = {survey.workflow: survey for survey in decide(run).results.surveys}
    assert [(one.model, one.verdict) for one in surveys["onnxruntime-cpu"].models] == [
        ("recommender", "pass"),
        ("demo", "pass"),
    ]
