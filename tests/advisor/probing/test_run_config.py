"""What a worker is asked, and the batch size of the inputs that the user gives."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import builders
import numpy as np
import onnx_texts
import psutil
import pytest
import sessions
import workers

from advisor.ask import catalogue_files
from advisor.domain.model import ExportedModel, FactoryModel, Model, OnnxModel
from advisor.probing.env_variables import worker_environment
from advisor.probing.examples import OwnBatch, find_own_batch
from advisor.probing.run_config import RunConfig


@pytest.mark.parametrize(("task", "input_sets"), [("forward", 4), ("generate", 2)])
def test_a_worker_knows_its_arm_and_threads_and_generates_from_fewer_input_sets(
    task: str, input_sets: int, tmp_path: pathlib.Path
) -> None:
    config = sessions.run_config(tmp_path, tmp_path, asked={"task": task})
    planned = builders.arm("engine", dtypes=("float32",), quantiser="/env/bin/python")
    asked = config.worker_request(planned, tmp_path, tmp_path)
    assert (asked.supported_dtypes, asked.quantiser) == (["float32"], "/env/bin/python")
    assert (asked.threads, asked.input_sets) == (config.threads, input_sets)


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
        others = {"CUDA_VISIBLE_DEVICES": "0,1,2"}
        variables = worker_environment(others, config.question, 1, tmp_path)
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


def own_batch(model: Model, *, sandbox: bool = False) -> OwnBatch | None:
    question = builders.question(model=model, sandbox=sandbox, python=sys.executable)
    return find_own_batch(question, catalogue_files.probes_directory(), os.environ)


@pytest.mark.parametrize(
    ("inputs", "sandbox", "rows"),
    [
        ("(torch.ones(4 + len(open(0).read()), 8),)", False, 4),
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
    found = own_batch(FactoryModel(name=f"{file}:build"), sandbox=sandbox)
    assert found == (rows and (rows, False))


def test_the_process_of_a_plan_ends_with_the_program(tmp_path: pathlib.Path) -> None:
    file, pid = tmp_path / "net.py", tmp_path / "pid"
    waits = f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid())), time.sleep(600)"
    file.write_text(f"import os, pathlib, time\n{MODEL.format(inputs=waits)}")
    command = [sys.executable, "-m", "advisor", "recommend", f"{file}:build"]
    environment = {**os.environ, "P3_ADVISOR_HOME": str(tmp_path / "home")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as program:
        workers.wait_until(lambda: pid.exists() and pid.read_text())
        program.kill()
    workers.wait_until(lambda: not psutil.pid_exists(int(pid.read_text())))


@pytest.mark.parametrize(
    ("inputs", "given", "expected"),
    [
        ([3], 6, (3, True)),
        ([3, 3], None, (3, True)),
        ([3, 4], None, None),
        (["N"], 6, (6, False)),
        (["N"], None, None),
        ([1 << 20], None, None),
    ],
)
def test_the_fixed_size_of_an_onnx_file_comes_before_the_rows_of_given_inputs(
    inputs: list[int | str],
    given: int | None,
    expected: tuple[int, bool] | None,
    tmp_path: pathlib.Path,
) -> None:
    declared = ", ".join(f"float[{size}, 4] x{place}" for place, size in enumerate(inputs))
    graph = f"g ({declared}, float[7] w) => (float[N, 4] y) {{ y = Identity(x0) }}"
    weight: Any = np.ones(7, dtype=np.float32)
    file = onnx_texts.write_onnx(tmp_path / "model.onnx", graph, w=weight)
    if given:
        np.savez(tmp_path / "inputs.npz", x0=np.ones((given, 4)))
    place = str(tmp_path / "inputs.npz") if given else ""
    assert own_batch(OnnxModel(name=str(file), inputs=place)) == expected


@pytest.mark.stack
@pytest.mark.parametrize("is_free", [False, True])
def test_a_program_has_its_only_batch_size_or_that_of_its_examples(
    is_free: bool, tmp_path: pathlib.Path
) -> None:
    torch = pytest.importorskip("torch")
    shapes = ({0: torch.export.Dim.AUTO},) if is_free else None
    module, inputs = torch.nn.Linear(4, 4), (torch.zeros(3, 4),)
    program = torch.export.export(module, inputs, dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    assert own_batch(ExportedModel(name=str(tmp_path / "model.pt2"))) == (3, not is_free)


def test_a_file_that_cannot_be_opened_has_no_batch_size() -> None:
    assert own_batch(OnnxModel(name="/gone.onnx")) is None
