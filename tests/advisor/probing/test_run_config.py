"""What a worker is asked, and the batch size of the inputs that the user gives."""

from __future__ import annotations

import os
import pathlib
import sys

import builders
import numpy as np
import pytest
import sessions

from advisor.ask import catalogue_files
from advisor.domain.model import FactoryModel, Model, OnnxModel
from advisor.probing.env_variables import worker_environment
from advisor.probing.examples import rows_of_examples
from advisor.probing.run_config import RunConfig


def test_a_worker_gets_the_interpreter_that_writes_its_checkpoint(
    run_config: RunConfig, tmp_path: pathlib.Path
) -> None:
    native = builders.arm("engine")
    written = builders.replace(native, quantiser="/env/bin/python")
    asked = [run_config.worker_request(each, tmp_path, tmp_path) for each in (native, written)]
    assert [request.quantiser for request in asked] == ["", "/env/bin/python"]


def test_a_worker_knows_the_precisions_of_its_arm_and_its_threads(
    run_config: RunConfig, tmp_path: pathlib.Path
) -> None:
    planned = builders.arm("engine", dtypes=("float32",))
    asked = run_config.worker_request(planned, tmp_path, tmp_path)
    assert asked.supported_dtypes == ["float32"]
    assert asked.threads == run_config.header.machine.cpu.physical_cores


def test_a_worker_sees_every_gpu_over_which_its_model_is_split(tmp_path: pathlib.Path) -> None:
    planned = builders.arm("engine")
    split = {"device": "cuda", "gpu": "GPU-1", "further_gpus": ("GPU-2",)}
    for asked, count, seen in (
        ({}, 1, ""),
        ({**split, "further_gpus": ()}, 1, "GPU-1"),
        (split, 2, "GPU-1,GPU-2"),
    ):
        config = sessions.run_config(tmp_path, tmp_path, asked=asked)
        assert config.worker_request(planned, tmp_path, tmp_path).devices_per_model == count
        variables = worker_environment({}, config.question, 1, tmp_path)
        assert variables["CUDA_VISIBLE_DEVICES"] == seen


def test_a_worker_of_an_engine_gets_the_memory_of_its_workflow(
    run_config: RunConfig, tmp_path: pathlib.Path
) -> None:
    asked = {
        id_: run_config.worker_request(builders.arm(id_), tmp_path, tmp_path).engine_memory
        for id_ in ("vllm", "pytorch-eager")
    }
    expected = builders.shipped_catalogue().engine_memory["vllm"].overhead_gib
    assert asked["vllm"]["overhead_gib"] == expected
    assert asked["pytorch-eager"] == {}


MODEL = """\
import torch

def build():
    print("of the model")
    return torch.nn.Linear(8, 2), {inputs}
"""


def rows_of(model: Model, *, sandbox: bool = False) -> int | None:
    question = builders.question(model=model, sandbox=sandbox, python=sys.executable)
    return rows_of_examples(question, catalogue_files.probes_directory(), os.environ)


@pytest.mark.parametrize(
    ("inputs", "sandbox", "rows"),
    [
        ("(torch.ones(4, 8),)", False, 4),
        ("{'one': torch.ones(3, 8), 'two': [torch.ones(3)], 'three': 5.0}", True, 3),
        ("(torch.ones(4, 8), torch.ones(2, 8))", False, None),
        ("1 / 0", False, None),
    ],
)
def test_the_batch_size_is_the_first_dimension_that_all_inputs_share(
    inputs: str, sandbox: bool, rows: int | None, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "net.py"
    file.write_text(MODEL.format(inputs=inputs))
    assert rows_of(FactoryModel(name=f"{file}:build"), sandbox=sandbox) == rows


def test_inputs_in_a_file_come_before_those_of_the_model(tmp_path: pathlib.Path) -> None:
    given = tmp_path / "inputs.npz"
    np.savez(given, x=np.ones((6, 8)))
    assert rows_of(OnnxModel(name="/gone.onnx", inputs=str(given))) == 6


def test_a_file_without_inputs_has_no_batch_size() -> None:
    assert rows_of(OnnxModel(name="/gone.onnx")) is None
