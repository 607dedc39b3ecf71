from __future__ import annotations

import math
import pathlib
from typing import Any

import builders
import pytest

from advisor.cli import doctor
from advisor.cli.doctor import Finding, check_each_gpu, check_selected_gpu, check_served_workflows
from advisor.domain.machine import GpuProcess, Machine


def findings(*found: Any, problem: str | None = None) -> dict[str, Finding]:
    machine = builders.machine(
        gpus=found, gpu_problem=problem, software=builders.interpreter(torch_cuda="13.0")
    )
    return {finding.name: finding for finding in check_each_gpu(machine)}


def test_runs_need_a_directory_with_free_space(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    found = [doctor.check_home(home).status for home in (tmp_path, file)]
    monkeypatch.setattr(doctor, "LEAST_FREE", math.inf)
    assert [*found, doctor.check_home(tmp_path).status] == ["ok", "fail", "warn"]


def test_an_idle_gpu_has_no_problem() -> None:
    (finding,) = findings(
        builders.gpu(power_limit_w=700.0, power_limit_default_w=700.0, ecc=True, nvlinks=18)
    ).values()
    assert finding.status == "ok"
    assert finding.fix is None
    assert "700 W, ECC on, 18 NVLinks" in finding.what


@pytest.mark.parametrize(
    ("visible_devices", "status", "words"),
    [
        (None, "ok", "No. 0"),
        ("1", "ok", "No. 1"),
        ("", "warn", "none: CUDA_VISIBLE_DEVICES is ''"),
        ("2", "warn", "is partitioned into MIG instances"),
        ("MIG-4711", "warn", "MIG-4711 is a MIG instance"),
    ],
)
def test_the_selected_gpu_is_reported(visible_devices: str | None, status: str, words: str) -> None:
    machine = builders.gpu_machine(
        *(
            builders.gpu(index=number, uuid=f"GPU-{number}", name=f"No. {number}", mig=number > 1)
            for number in range(3)
        )
    )
    finding = check_selected_gpu(machine, visible_devices)
    assert (finding.name, finding.status) == ("gpu", status)
    assert words in finding.what
    assert finding.fix or status == "ok"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"processes": (GpuProcess(pid=7, memory_bytes=3 << 30, name="python"),)},
            "1 other process uses it and 3.0 GiB of its memory (python)",
        ),
        (
            {"processes": (GpuProcess(pid=7, memory_bytes=None, name=None),)},
            "names not visible in this container",
        ),
        ({"mps_processes": 2}, "MPS"),
        ({"mig": True}, "MIG"),
        (
            {"power_limit_w": 300.0, "power_limit_default_w": 700.0},
            "limited to 300 W instead of 700 W",
        ),
    ],
)
def test_a_problem_of_a_gpu_is_a_warning_with_its_fix(changes: dict[str, Any], words: str) -> None:
    (finding,) = findings(builders.gpu(**changes)).values()
    assert finding.status == "warn"
    assert words in finding.what
    assert finding.fix


def test_every_gpu_and_the_failure_of_another_are_listed() -> None:
    found = findings(
        builders.gpu(), builders.gpu(index=2, uuid="GPU-2"), problem="GPU 1: GPU is lost"
    )
    assert list(found) == ["gpu 0", "gpu 2", "nvml"]
    assert found["nvml"].what == "GPU 1: GPU is lost"


@pytest.mark.parametrize(
    ("machine", "listed"),
    [
        (builders.machine(), "pytorch-eager, everywhere"),
        (builders.gpu_machine(), "pytorch-eager, everywhere, on-gpus"),
    ],
)
def test_workflows_for_devices_that_are_not_here_are_not_listed(
    machine: Machine, listed: str
) -> None:
    known = builders.catalogue(
        builders.workflow("everywhere"), builders.workflow("on-gpus", devices=("cuda",))
    )
    assert check_served_workflows(machine, known).what == listed
