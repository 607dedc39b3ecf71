"""The environment variables of workers."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import builders
import pytest

from advisor.probing import env_variables

SCRATCH = pathlib.Path("/scratch/compiled-0")


def environment(
    inherited: dict[str, str] | None = None, threads: int = 4, **asked: Any
) -> dict[str, str]:
    return env_variables.worker_environment(
        inherited or {}, builders.question(**asked), threads, SCRATCH
    )


def test_a_worker_inherits_the_variables_of_the_user() -> None:
    inherited = {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/opt/lib", "HF_TOKEN": "secret"}
    assert inherited.items() <= environment(inherited).items()


def test_neither_the_inherited_nor_the_own_environment_is_changed() -> None:
    inherited, own = {"OMP_NUM_THREADS": "64"}, dict(os.environ)
    environment(inherited)
    assert inherited == {"OMP_NUM_THREADS": "64"}
    assert dict(os.environ) == own


#: Threads, memory, telemetry and bytecode.
SET = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "3"),
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MAX_SERVE_DISABLE_TELEMETRY": "1",
    "TF_BUILD": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def test_what_a_measurement_needs_is_set_whatever_the_user_has() -> None:
    assert SET.items() <= environment(dict.fromkeys(SET, "64"), threads=3).items()


def test_every_cache_has_its_own_folder_in_the_scratch_directory() -> None:
    made = environment(dict.fromkeys(env_variables.CACHES, "/home/user/.cache"))
    folders = {pathlib.Path(made[name]) for name in env_variables.CACHES}
    assert len(folders) == len(env_variables.CACHES)
    assert all(folder.is_relative_to(SCRATCH) for folder in folders)


@pytest.mark.parametrize("gpu", [None, "GPU-1234"])
def test_a_worker_sees_only_the_measured_gpu(gpu: str | None) -> None:
    assert environment({"CUDA_VISIBLE_DEVICES": "0,1,2"}, gpu=gpu)["CUDA_VISIBLE_DEVICES"] == (
        gpu or ""
    )


@pytest.mark.parametrize(
    ("inherited", "offline", "expected"),
    [({}, True, "1"), ({}, False, None), ({"HF_HUB_OFFLINE": "1"}, False, "1")],
)
def test_the_hub_is_offline_on_request(
    inherited: dict[str, str], *, offline: bool, expected: str | None
) -> None:
    assert environment(inherited, offline=offline).get("HF_HUB_OFFLINE") == expected


def test_a_created_environment_inherits_no_import_paths() -> None:
    inherited = {
        "PYTHONPATH": "/foreign",
        "PYTHONHOME": "/foreign",
        "VIRTUAL_ENV": "/other",
        "PATH": "/usr/bin",
    }
    made = env_variables.worker_environment(
        inherited, builders.question(), 4, SCRATCH, own_environment=True
    )
    assert not {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"} & set(made)
    assert made["PATH"] == "/usr/bin"
    assert environment(inherited)["PYTHONPATH"] == "/foreign"
