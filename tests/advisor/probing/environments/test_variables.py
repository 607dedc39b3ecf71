"""The variables of a worker: what it inherits, what it must not see, and nothing of our own process changed."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import builders
import pytest

from advisor.domain.machine import Cpu
from advisor.probing import environments

SCRATCH = pathlib.Path("/scratch/compiled-0")


def environment(
    inherited: dict[str, str] | None = None, threads: int = 4, **asked: Any
) -> dict[str, str]:
    return environments.worker_environment(
        inherited or {}, builders.question(**asked), threads, SCRATCH
    )


def test_a_worker_inherits_what_the_user_has_set() -> None:
    inherited = {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/opt/lib", "HF_TOKEN": "secret"}
    assert inherited.items() <= environment(inherited).items()


def test_neither_what_is_inherited_nor_our_own_environment_is_changed() -> None:
    inherited, ours = {"OMP_NUM_THREADS": "64"}, dict(os.environ)
    environment(inherited)
    assert inherited == {"OMP_NUM_THREADS": "64"}
    assert dict(os.environ) == ours


def test_every_library_gets_the_same_number_of_threads() -> None:
    made = environment({"OMP_NUM_THREADS": "64"}, threads=3)
    assert [
        made[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    ] == ["3"] * 3


def test_jax_takes_memory_only_as_it_needs_it() -> None:
    assert (
        environment({"XLA_PYTHON_CLIENT_PREALLOCATE": "true"})["XLA_PYTHON_CLIENT_PREALLOCATE"]
        == "false"
    )


@pytest.mark.parametrize("name", environments.CACHES)
def test_every_cache_is_the_workers_own(name: str) -> None:
    made = environment({name: "/home/user/.cache"})
    assert pathlib.Path(made[name]).is_relative_to(SCRATCH)


def test_no_two_caches_share_a_folder() -> None:
    folders = [environment()[name] for name in environments.CACHES]
    assert len(set(folders)) == len(folders)


@pytest.mark.parametrize("gpu", [None, "GPU-1234"])
def test_a_worker_sees_the_gpu_that_is_measured_and_no_other(gpu: str | None) -> None:
    assert environment({"CUDA_VISIBLE_DEVICES": "0,1,2"}, gpu=gpu)["CUDA_VISIBLE_DEVICES"] == (
        gpu or ""
    )


def test_nothing_is_reported_anywhere() -> None:
    made = environment({"DO_NOT_TRACK": "0"})
    assert (
        made["TF_BUILD"]
        == made["DO_NOT_TRACK"]
        == made["HF_HUB_DISABLE_TELEMETRY"]
        == made["VLLM_NO_USAGE_STATS"]
        == "1"
    )


@pytest.mark.parametrize(("offline", "expected"), [(True, "1"), (False, None)])
def test_the_hub_is_left_alone_when_asked(offline: bool, expected: str | None) -> None:
    assert environment(offline=offline).get("HF_HUB_OFFLINE") == expected


def test_a_user_who_is_offline_stays_offline() -> None:
    assert environment({"HF_HUB_OFFLINE": "1"}, offline=False)["HF_HUB_OFFLINE"] == "1"


def test_probing_leaves_no_files_in_the_users_interpreter() -> None:
    assert environment()["PYTHONDONTWRITEBYTECODE"] == "1"


def test_an_arm_has_as_many_threads_as_there_are_cores() -> None:
    machine = builders.machine(
        cpu=Cpu(model="x", physical_cores=6, usable_processors=12, memory_bytes=1)
    )
    assert environments.thread_count(machine) == 6


def test_an_environment_of_our_making_sees_no_packages_from_elsewhere() -> None:
    poisoned = {
        "PYTHONPATH": "/poison",
        "PYTHONHOME": "/poison",
        "VIRTUAL_ENV": "/other",
        "PATH": "/usr/bin",
    }
    made = environments.worker_environment(
        poisoned, builders.question(), 4, SCRATCH, made_for_it=True
    )
    assert not {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"} & set(made)
    assert made["PATH"] == "/usr/bin"
    assert environment(poisoned)["PYTHONPATH"] == "/poison"
