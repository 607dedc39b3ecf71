"""Read the properties of each GPU with NVML; a property that cannot be read is None."""

from __future__ import annotations

from typing import Any

import psutil

from advisor.domain.machine import Gpu, GpuProcess

MILLI = 1e-3
#: NVLinks that a GPU has at most.
MAX_NVLINKS = 18


def detect_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """Return the readable NVIDIA GPUs, and the error of the library or of the other GPUs."""
    try:
        import pynvml  # noqa: PLC0415 - not needed by commands that do not inspect the machine
    except ImportError as problem:
        return (), f"the Python package nvidia-ml-py is missing: {problem}"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as problem:
        return (), str(problem)
    try:
        return _read_all(pynvml)
    except pynvml.NVMLError as problem:
        return (), str(problem)
    finally:
        pynvml.nvmlShutdown()


def _read_all(library: Any) -> tuple[tuple[Gpu, ...], str | None]:  # noqa: ANN401 - pynvml is untyped
    results = [_read_gpu_or_error(library, index) for index in range(library.nvmlDeviceGetCount())]
    gpus = tuple(result for result in results if isinstance(result, Gpu))
    errors = [result for result in results if isinstance(result, str)]
    return gpus, "; ".join(errors) or None


def _read_gpu_or_error(library: Any, index: int) -> Gpu | str:  # noqa: ANN401 - pynvml is untyped
    """Return the GPU, or the error message: a lost GPU must not hide the others."""
    try:
        return _read_gpu(library, index)
    except library.NVMLError as problem:
        return f"GPU {index}: {problem}"


def _read_gpu(library: Any, index: int) -> Gpu:  # noqa: ANN401 - pynvml is untyped
    handle = library.nvmlDeviceGetHandleByIndex(index)
    memory = library.nvmlDeviceGetMemoryInfo(handle)
    major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
    cuda = library.nvmlSystemGetCudaDriverVersion_v2()
    device = DeviceReader(library, handle)
    return Gpu(
        index=index,
        uuid=_decode(library.nvmlDeviceGetUUID(handle)),
        name=_decode(library.nvmlDeviceGetName(handle)),
        compute_capability=f"{major}.{minor}",
        memory_bytes=int(memory.total),
        free_memory_bytes=int(memory.free),
        driver=_decode(library.nvmlSystemGetDriverVersion()),
        cuda_driver=f"{cuda // 1000}.{cuda % 1000 // 10}",
        sm_clock_max_mhz=device.number("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
        memory_clock_max_mhz=device.number("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM"),
        power_limit_w=device.watts("nvmlDeviceGetEnforcedPowerLimit"),
        power_limit_default_w=device.watts("nvmlDeviceGetPowerManagementDefaultLimit"),
        ecc=device.current_flag("nvmlDeviceGetEccMode"),
        mig=device.current_flag("nvmlDeviceGetMigMode"),
        persistence=device.current_flag("nvmlDeviceGetPersistenceMode"),
        nvlinks=device.count_active_nvlinks(),
        pcie_generation=device.number("nvmlDeviceGetMaxPcieLinkGeneration"),
        pcie_width=device.number("nvmlDeviceGetMaxPcieLinkWidth"),
        processes=device.processes("nvmlDeviceGetComputeRunningProcesses"),
        mps_processes=len(device.processes("nvmlDeviceGetMPSComputeRunningProcesses")),
    )


class DeviceReader:
    """Reads properties of one GPU; an unsupported property is None."""

    def __init__(self, library: Any, handle: Any) -> None:  # noqa: ANN401 - pynvml is untyped
        self._library = library
        self._handle = handle

    def call(self, function: str, *arguments: int) -> Any:  # noqa: ANN401 - pynvml is untyped
        try:
            return getattr(self._library, function)(self._handle, *arguments)
        except (self._library.NVMLError, AttributeError):
            return None

    def number(self, function: str, constant: str | None = None) -> int | None:
        """Return a number; `constant` is the name of the pynvml constant to pass."""
        arguments = (getattr(self._library, constant, None),) if constant else ()
        value = None if None in arguments else self.call(function, *arguments)
        return int(value) if value is not None else None

    def watts(self, function: str) -> float | None:
        """Return the watts of a function that returns milliwatts."""
        value = self.call(function)
        return value * MILLI if value is not None else None

    def current_flag(self, function: str) -> bool | None:
        """Return the current state of a function that may return current and pending state."""
        value = self.call(function)
        current = value[0] if isinstance(value, (list, tuple)) else value
        return bool(current) if current is not None else None

    def count_active_nvlinks(self) -> int | None:
        """Return the number of active NVLinks; None for a GPU without NVLink."""
        states = [self.call("nvmlDeviceGetNvLinkState", link) for link in range(MAX_NVLINKS)]
        known = [state for state in states if state is not None]
        return sum(map(bool, known)) if known else None

    def processes(self, function: str) -> tuple[GpuProcess, ...]:
        """Return the processes on the GPU.

        In a container the process ids are those of the host, and names cannot be looked up.
        """
        return tuple(
            GpuProcess(
                pid=process.pid, memory_bytes=process.usedGpuMemory, name=_process_name(process.pid)
            )
            for process in self.call(function) or ()
        )


def _process_name(pid: int) -> str | None:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return None


def _decode(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
