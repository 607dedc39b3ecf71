"""The lines that users get compute float32 on a GPU as precisely as the workers."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest
from forks import run_command

STACKS = pathlib.Path(__file__).parents[2] / "stacks"
#: In a process of its own, which replaces the stacks by stubs.
RENDER = """
import json
from integration import integration_of, load_workflows

print(json.dumps({
    str(workflow.id): integration_of(file, next(iter(workflow.arms.values())).options, "forward",
        asked={"subject": {"kind": "torch"}})
    for workflow, file in load_workflows()
    if "forward" in workflow.tasks and "cuda" in workflow.devices
}))
"""
SWITCHES = {
    "onnxruntime-cuda": '[("CUDAExecutionProvider", {"use_tf32": "0"})]',
    "onnxruntime-tensorrt": 'os.environ["NVIDIA_TF32_OVERRIDE"] = "0"',
    "openxla-jax": 'jax.config.update("jax_default_matmul_precision", "highest")',
    "tensorrt": "config.clear_flag(trt.BuilderFlag.TF32)",
    "tensorrt-rtx": "config.clear_flag(trt.BuilderFlag.TF32)",
    "torch-compile-tensorrt": "'disable_tf32': True",
    "torch-tensorrt": "disable_tf32=True",
}


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    answer = run_command([sys.executable, "-c", RENDER], directory=STACKS)
    lines: dict[str, str] = json.loads(answer.stdout)
    return lines


@pytest.mark.parametrize("workflow", SWITCHES)
def test_code_in_float32_switches_tf32_off_as_the_worker_does(
    workflow: str, printed: dict[str, str]
) -> None:
    assert SWITCHES[workflow] in printed[workflow]
