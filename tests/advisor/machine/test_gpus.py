"""What is told of a GPU beyond its name, by libraries that know everything, little, or fail for one GPU of several."""

from __future__ import annotations

import os
import sys
import types
from typing import Any

import builders
import pytest

from advisor import doctor
from advisor.domain.machine import GpuProcess
from advisor.machine import gpus


class NVMLError(Exception):
    """What the management library raises."""


class Library(types.ModuleType):
    """Stands for `pynvml`: answers what a test sets, raises what a test sets to an exception, lacks everything else."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, count: int = 1, **answers: Any) -> None:
        super().__init__("pynvml")
        self.nvmlDeviceGetHandleByIndex = int
        self.answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetCount": count,
            "nvmlDeviceGetUUID": "GPU-0",
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=100, free=70),
            "nvmlSystemGetDriverVersion": "580.65.06",
            "nvmlSystemGetCudaDriverVersion_v2": 13000,
            **answers,
        }

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__.get("answers", {}):
            raise AttributeError(name)
        answer = self.answers[name]

        def function(*arguments: Any) -> Any:
            said = answer(*arguments) if callable(answer) else answer
            if isinstance(said, Exception):
                raise said
            return said

        return function


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda library: monkeypatch.setitem(sys.modules, "pynvml", library)


def process(pid: int, memory_bytes: int | None = 1 << 30) -> types.SimpleNamespace:
    return types.SimpleNamespace(pid=pid, usedGpuMemory=memory_bytes)


def test_clocks_limits_links_and_company_are_told(install: Any) -> None:
    install(
        Library(
            nvmlDeviceGetMaxClockInfo=lambda _handle, clock: {1: 1980, 2: 3201}[clock],
            nvmlDeviceGetEnforcedPowerLimit=500_000,
            nvmlDeviceGetPowerManagementDefaultLimit=700_000,
            nvmlDeviceGetEccMode=[1, 1],
            nvmlDeviceGetMigMode=[0, 1],
            nvmlDeviceGetPersistenceMode=1,
            nvmlDeviceGetNvLinkState=lambda _handle, link: (
                1 if link < 4 else NVMLError("Invalid Argument")
            ),
            nvmlDeviceGetMaxPcieLinkGeneration=5,
            nvmlDeviceGetMaxPcieLinkWidth=16,
            nvmlDeviceGetComputeRunningProcesses=[process(os.getpid())],
            nvmlDeviceGetMPSComputeRunningProcesses=[],
        )
    )
    (gpu,), problem = gpus.detect_gpus()
    assert problem is None
    assert (gpu.sm_clock_max_mhz, gpu.memory_clock_max_mhz) == (1980, 3201)
    assert (gpu.power_limit_w, gpu.power_limit_default_w) == (500.0, 700.0)
    assert (gpu.ecc, gpu.mig, gpu.persistence) == (True, False, True)
    assert (gpu.nvlinks, gpu.pcie_generation, gpu.pcie_width) == (4, 5, 16)
    (company,) = gpu.processes
    assert company.pid == os.getpid()
    assert company.name


@pytest.mark.parametrize(
    "absent",
    [
        {},
        {
            "nvmlDeviceGetEccMode": NVMLError("Not Supported"),
            "nvmlDeviceGetMaxClockInfo": NVMLError("Not Supported"),
        },
    ],
)
def test_what_a_gpu_or_an_old_package_does_not_know_is_not_told(
    absent: dict[str, Any], install: Any
) -> None:
    install(Library(**absent))
    (gpu,), problem = gpus.detect_gpus()
    assert problem is None
    assert (gpu.sm_clock_max_mhz, gpu.power_limit_w, gpu.ecc, gpu.nvlinks, gpu.processes) == (
        None,
        None,
        None,
        None,
        (),
    )


def test_one_gpu_that_is_lost_leaves_the_others(install: Any) -> None:
    install(
        Library(
            count=3,
            nvmlDeviceGetName=lambda handle: (
                NVMLError("GPU is lost") if handle == 1 else "NVIDIA H200"
            ),
        )
    )
    found, problem = gpus.detect_gpus()
    assert [gpu.index for gpu in found] == [0, 2]
    assert problem == "GPU 1: GPU is lost"


def test_a_missing_package_is_a_reason_and_no_crash(install: Any) -> None:
    install(None)
    found, problem = gpus.detect_gpus()
    assert found == ()
    assert "nvidia-ml-py" in str(problem)


def findings(*found: Any, problem: str | None = None) -> dict[str, doctor.Finding]:
    here = builders.machine(
        gpus=found, gpu_problem=problem, software=builders.interpreter(torch_cuda="13.0")
    )
    return {finding.name: finding for finding in doctor.look_at_gpus(here)}


def test_the_doctor_finds_nothing_amiss_with_a_quiet_gpu() -> None:
    (finding,) = findings(
        builders.gpu(power_limit_w=700.0, power_limit_default_w=700.0, ecc=True, nvlinks=18)
    ).values()
    assert finding.status == "ok"
    assert finding.fix is None
    assert "700 W, ECC on, 18 NVLinks" in finding.what


@pytest.mark.parametrize(
    ("visible", "status", "words"),
    [
        (None, "ok", "No. 0"),
        ("1", "ok", "No. 1"),
        ("", "warn", "none: CUDA_VISIBLE_DEVICES is ''"),
        ("2", "warn", "is cut into MIG instances"),
        ("MIG-4711", "warn", "MIG-4711 is a part of a GPU"),
    ],
)
def test_the_doctor_says_which_gpu_would_be_measured(
    visible: str | None, status: str, words: str
) -> None:
    here = builders.gpu_machine(
        *(
            builders.gpu(index=number, uuid=f"GPU-{number}", name=f"No. {number}", mig=number > 1)
            for number in range(3)
        )
    )
    finding = doctor.look_at_gpu(here, visible)
    assert (finding.name, finding.status) == ("gpu", status)
    assert words in finding.what
    assert finding.fix or status == "ok"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"processes": (GpuProcess(pid=7, memory_bytes=3 << 30, name="python"),)},
            "1 others compute on it and hold 3.0 GiB (python)",
        ),
        (
            {"processes": (GpuProcess(pid=7, memory_bytes=None, name=None),)},
            "their numbers are the host's",
        ),
        ({"mps_processes": 2}, "MPS"),
        ({"mig": True}, "MIG"),
        (
            {"power_limit_w": 300.0, "power_limit_default_w": 700.0},
            "limited to 300 W instead of 700 W",
        ),
    ],
)
def test_the_doctor_says_what_would_disturb(changes: dict[str, Any], words: str) -> None:
    (finding,) = findings(builders.gpu(**changes)).values()
    assert finding.status == "warn"
    assert words in finding.what
    assert finding.fix


def test_the_doctor_lists_every_gpu_and_the_one_that_does_not_answer() -> None:
    found = findings(
        builders.gpu(), builders.gpu(index=2, uuid="GPU-2"), problem="GPU 1: GPU is lost"
    )
    assert list(found) == ["gpu 0", "gpu 2", "nvml"]
    assert found["nvml"].what == "GPU 1: GPU is lost"
