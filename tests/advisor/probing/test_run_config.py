"""What a worker is asked."""

from __future__ import annotations

import dataclasses
import pathlib

import builders
import msgspec

from advisor.probing.run_config import RunConfig


def test_a_worker_gets_the_interpreter_that_writes_its_checkpoint(
    run_config: RunConfig, tmp_path: pathlib.Path
) -> None:
    native = builders.arm("engine")
    written = msgspec.structs.replace(native, quantiser="/env/bin/python")
    asked = [run_config.worker_request(arm, tmp_path, tmp_path) for arm in (native, written)]
    assert [request.quantiser for request in asked] == ["", "/env/bin/python"]


def test_a_worker_knows_the_precisions_of_its_arm(
    run_config: RunConfig, tmp_path: pathlib.Path
) -> None:
    arm = msgspec.structs.replace(builders.arm("engine"), dtypes=("float32",))
    assert run_config.worker_request(arm, tmp_path, tmp_path).supported_dtypes == ["float32"]


def test_a_worker_sees_every_gpu_over_which_its_model_is_split(
    run_config: RunConfig, tmp_path: pathlib.Path
) -> None:
    arm = builders.arm("engine")
    split = msgspec.structs.replace(
        run_config.question, device="cuda", gpu="GPU-1", further_gpus=("GPU-2",)
    )
    for question, count, seen in (
        (run_config.question, 1, ""),
        (msgspec.structs.replace(split, further_gpus=()), 1, "GPU-1"),
        (split, 2, "GPU-1,GPU-2"),
    ):
        config = dataclasses.replace(run_config, question=question)
        assert config.worker_request(arm, tmp_path, tmp_path).devices_per_model == count
        assert config.worker_environment(arm, tmp_path)["CUDA_VISIBLE_DEVICES"] == seen


def test_a_worker_of_an_engine_gets_the_memory_of_its_workflow(
    run_config: RunConfig, tmp_path: pathlib.Path
) -> None:
    vllm = builders.shipped_catalogue().engine_memory["vllm"]
    config = dataclasses.replace(run_config, engine_memory={"vllm": vllm})
    asked = {
        id_: config.worker_request(builders.arm(id_), tmp_path, tmp_path).engine_memory
        for id_ in ("vllm", "pytorch-eager")
    }
    assert asked["vllm"]["overhead_gib"] == vllm.overhead_gib
    assert asked["pytorch-eager"] == {}
