"""What a worker is asked."""

from __future__ import annotations

import pathlib

import builders
import msgspec
import sessions

from advisor.probing.environments.variables import worker_environment
from advisor.probing.run_config import RunConfig


def test_a_worker_gets_the_interpreter_that_writes_its_checkpoint(
    run_config: RunConfig, tmp_path: pathlib.Path
) -> None:
    native = builders.arm("engine")
    written = msgspec.structs.replace(native, quantiser="/env/bin/python")
    asked = [run_config.worker_request(arm, tmp_path, tmp_path) for arm in (native, written)]
    assert [request.quantiser for request in asked] == ["", "/env/bin/python"]


def test_a_worker_knows_the_precisions_of_its_arm_and_its_threads(
    run_config: RunConfig, tmp_path: pathlib.Path
) -> None:
    arm = msgspec.structs.replace(builders.arm("engine"), dtypes=("float32",))
    asked = run_config.worker_request(arm, tmp_path, tmp_path)
    assert asked.supported_dtypes == ["float32"]
    assert asked.threads == run_config.header.machine.cpu.physical_cores


def test_a_worker_sees_every_gpu_over_which_its_model_is_split(tmp_path: pathlib.Path) -> None:
    arm = builders.arm("engine")
    split = {"device": "cuda", "gpu": "GPU-1", "further_gpus": ("GPU-2",)}
    for asked, count, seen in (
        ({}, 1, ""),
        ({**split, "further_gpus": ()}, 1, "GPU-1"),
        (split, 2, "GPU-1,GPU-2"),
    ):
        config = sessions.run_config(tmp_path, tmp_path, asked=asked)
        assert config.worker_request(arm, tmp_path, tmp_path).devices_per_model == count
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
