"""Properties of GPUs, with an NVML that supports all, few, or fails for one GPU."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from advisor.ask import detection
from advisor.domain.machine import Gpu


class NVMLError(Exception):
    """The exception type of NVML."""


class FakeNvml(types.ModuleType):
    """A fake `pynvml` that has only the given functions; an exception as value is raised."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, count: int = 1, **answers: Any) -> None:
        super().__init__("pynvml")
        self.nvmlDeviceGetHandleByIndex = int
        #: Names of the functions called so far.
        self.calls: list[str] = []
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
            self.calls.append(name)
            value = answer(*arguments) if callable(answer) else answer
            if isinstance(value, Exception):
                raise value
            return value

        return function


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda library: monkeypatch.setitem(sys.modules, "pynvml", library)


def failing(*functions: str) -> FakeNvml:
    library = FakeNvml()
    library.answers |= {name: NVMLError(f"{name} failed") for name in functions}
    return library


def process(pid: int, memory_bytes: int | None = 1 << 30) -> types.SimpleNamespace:
    return types.SimpleNamespace(pid=pid, usedGpuMemory=memory_bytes)


def test_clocks_limits_links_and_processes_are_read(install: Any) -> None:
    install(
        FakeNvml(
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
    (gpu,), problem = detection.detect_gpus()
    assert problem is None
    assert (gpu.sm_clock_max_mhz, gpu.memory_clock_max_mhz) == (1980, 3201)
    assert (gpu.power_limit_w, gpu.power_limit_default_w) == (500.0, 700.0)
    assert (gpu.ecc, gpu.mig, gpu.persistence) == (True, False, True)
    assert (gpu.nvlinks, gpu.pcie_generation, gpu.pcie_width) == (4, 5, 16)
    (gpu_process,) = gpu.processes
    assert gpu_process.pid == os.getpid()
    assert gpu_process.name


@pytest.mark.parametrize(
    "functions",
    [
        {},
        {
            "nvmlDeviceGetEccMode": NVMLError("Not Supported"),
            "nvmlDeviceGetMaxClockInfo": NVMLError("Not Supported"),
        },
    ],
)
def test_unsupported_properties_are_none(functions: dict[str, Any], install: Any) -> None:
    install(FakeNvml(**functions))
    (gpu,), problem = detection.detect_gpus()
    assert problem is None
    assert (gpu.sm_clock_max_mhz, gpu.power_limit_w, gpu.ecc, gpu.nvlinks, gpu.processes) == (
        None,
        None,
        None,
        None,
        (),
    )


def test_a_lost_gpu_does_not_hide_the_others(install: Any) -> None:
    install(
        FakeNvml(
            count=3,
            nvmlDeviceGetName=lambda handle: (
                NVMLError("GPU is lost") if handle == 1 else "NVIDIA H200"
            ),
        )
    )
    found, problem = detection.detect_gpus()
    assert [gpu.index for gpu in found] == [0, 2]
    assert problem == "GPU 1: GPU is lost"


def test_a_missing_pynvml_gives_no_gpus_and_the_reason(install: Any) -> None:
    install(None)
    found, problem = detection.detect_gpus()
    assert found == ()
    assert "nvidia-ml-py" in str(problem)


@pytest.mark.parametrize("encode", [str, str.encode])
def test_older_releases_of_the_library_return_bytes(
    encode: Callable[[str], str | bytes], install: Any
) -> None:
    install(
        FakeNvml(
            count=2,
            nvmlDeviceGetUUID=lambda handle: encode(f"GPU-{handle}"),
            nvmlDeviceGetName=lambda handle: encode(f"NVIDIA H200 No. {handle}"),
            nvmlSystemGetDriverVersion=lambda: encode("580.65.06"),
        )
    )
    found, problem = detection.detect_gpus()
    assert (problem, len(found)) == (None, 2)
    assert found[1] == Gpu(
        index=1,
        uuid="GPU-1",
        name="NVIDIA H200 No. 1",
        compute_capability="9.0",
        memory_bytes=100,
        free_memory_bytes=70,
        driver="580.65.06",
        cuda_driver="13.0",
    )


@pytest.mark.parametrize(
    "fails", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo"]
)
def test_a_failing_library_gives_no_gpus_and_is_shut_down(fails: str, install: Any) -> None:
    library = failing(fails)
    install(library)
    found, problem = detection.detect_gpus()
    assert found == ()
    assert str(problem).endswith(f"{fails} failed")
    assert library.calls.count("nvmlShutdown") == (fails != "nvmlInit")


def test_a_machine_without_gpus_has_no_gpu_problem(install: Any) -> None:
    install(FakeNvml(count=0))
    assert detection.detect_gpus() == ((), None)
