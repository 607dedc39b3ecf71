"""vLLM serves a model that is split over two processes; on a CPU they talk over gloo."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.execute.drafts import prepare
from advisor.store.store import Store

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(3600)]

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")


def test_a_split_model_is_served_with_the_right_texts(tmp_path: pathlib.Path) -> None:
    """The question is changed after the plan: the option itself refuses a CPU."""
    environment = {**os.environ, "P3_ADVISOR_HOME": str(tmp_path)}
    subprocess.run([COMMAND, "env", "create", "vllm-cpu", "aiperf"], env=environment, check=True)
    answers = Answers(
        model="demo/llama",
        task="serve",
        gpu="cpu",
        ttft="500ms",
        itl="200ms",
        lengths="instruct",
        workflows="vllm",
    )
    run = prepare(answers, Context(environment=environment, store=Store(tmp_path)))
    file = run.directory / "run.json"
    header = json.loads(file.read_text())
    header["question"]["further_gpus"] = ["second"]
    file.write_text(json.dumps(header))

    answer = subprocess.run(
        [COMMAND, "resume", run.directory.name, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    results = json.loads(answer.stdout)["results"]
    entries = {each["arm"]: each for each in results["measurements"]}
    assert entries["vllm"]["settings"]["tensor parallel"] == "2"
    (served,) = results["serving"]["arms"]
    assert served["goodput"]["value"] > 0
    assert served["texts_checked"] > 0
