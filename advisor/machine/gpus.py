"""What NVIDIA's management library says of each GPU; a GPU or a driver that does not tell one thing is none the worse for the rest."""

from __future__ import annotations

from typing import Any

import psutil

from advisor.domain.machine import Gpu, GpuProcess

MILLI = 1e-3
#: NVLink has at most this many links a GPU.
MOST_LINKS = 18


def detect_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """Return the NVIDIA GPUs that answer, and what the library says where it or one of them does not."""
    try:
        import pynvml  # noqa: PLC0415 - commands that look at no machine do not need it
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


def _read_all(library: Any) -> tuple[tuple[Gpu, ...], str | None]:  # noqa: ANN401 - pynvml, or what stands in for it
    answers = [_read_or_say_why(library, index) for index in range(library.nvmlDeviceGetCount())]
    problems = [answer for answer in answers if isinstance(answer, str)]
    return tuple(answer for answer in answers if isinstance(answer, Gpu)), "; ".join(
        problems
    ) or None


def _read_or_say_why(library: Any, index: int) -> Gpu | str:  # noqa: ANN401 - as above
    """Return the GPU, or what the library says instead: one that has fallen off the bus does not take the others along."""
    try:
        return _read_gpu(library, index)
    except library.NVMLError as problem:
        return f"GPU {index}: {problem}"


def _read_gpu(library: Any, index: int) -> Gpu:  # noqa: ANN401 - as above
    handle = library.nvmlDeviceGetHandleByIndex(index)
    memory = library.nvmlDeviceGetMemoryInfo(handle)
    major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
    cuda = library.nvmlSystemGetCudaDriverVersion_v2()
    ask = Asker(library, handle)
    return Gpu(
        index=index,
        uuid=_text(library.nvmlDeviceGetUUID(handle)),
        name=_text(library.nvmlDeviceGetName(handle)),
        compute_capability=f"{major}.{minor}",
        memory_bytes=int(memory.total),
        free_memory_bytes=int(memory.free),
        driver=_text(library.nvmlSystemGetDriverVersion()),
        cuda_driver=f"{cuda // 1000}.{cuda % 1000 // 10}",
        sm_clock_max_mhz=ask.number("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
        memory_clock_max_mhz=ask.number("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM"),
        power_limit_w=ask.watts("nvmlDeviceGetEnforcedPowerLimit"),
        power_limit_default_w=ask.watts("nvmlDeviceGetPowerManagementDefaultLimit"),
        ecc=ask.first_flag("nvmlDeviceGetEccMode"),
        mig=ask.first_flag("nvmlDeviceGetMigMode"),
        persistence=ask.first_flag("nvmlDeviceGetPersistenceMode"),
        nvlinks=ask.count_links(),
        pcie_generation=ask.number("nvmlDeviceGetMaxPcieLinkGeneration"),
        pcie_width=ask.number("nvmlDeviceGetMaxPcieLinkWidth"),
        processes=ask.processes("nvmlDeviceGetComputeRunningProcesses"),
        mps_processes=len(ask.processes("nvmlDeviceGetMPSComputeRunningProcesses")),
    )


class Asker:
    """Asks the library about one GPU; None for what this GPU, its driver or the library's Python package does not know."""

    def __init__(self, library: Any, handle: Any) -> None:  # noqa: ANN401 - as above
        self._library = library
        self._handle = handle

    def ask(self, function: str, *arguments: int) -> Any:  # noqa: ANN401 - whatever it answers
        """Return the answer."""
        try:
            return getattr(self._library, function)(self._handle, *arguments)
        except (self._library.NVMLError, AttributeError):
            return None

    def number(self, function: str, constant: str | None = None) -> int | None:
        """Return a number; `constant` names what the function is asked for."""
        arguments = (getattr(self._library, constant, None),) if constant else ()
        answer = None if None in arguments else self.ask(function, *arguments)
        return int(answer) if answer is not None else None

    def watts(self, function: str) -> float | None:
        """Return watts for an answer in milliwatts."""
        answer = self.ask(function)
        return answer * MILLI if answer is not None else None

    def first_flag(self, function: str) -> bool | None:
        """Return whether something is on now, where the library may also say whether it will be."""
        answer = self.ask(function)
        now = answer[0] if isinstance(answer, (list, tuple)) else answer
        return bool(now) if now is not None else None

    def count_links(self) -> int | None:
        """Return the NVLinks that are up; None where the GPU has none."""
        states = [self.ask("nvmlDeviceGetNvLinkState", link) for link in range(MOST_LINKS)]
        known = [state for state in states if state is not None]
        return sum(map(bool, known)) if known else None

    def processes(self, function: str) -> tuple[GpuProcess, ...]:
        """Return who computes on the GPU; in a container the numbers are the host's, and then there is nobody of that name here."""
        return tuple(
            GpuProcess(
                pid=process.pid, memory_bytes=process.usedGpuMemory, name=_name_of(process.pid)
            )
            for process in self.ask(function) or ()
        )


def _name_of(pid: int) -> str | None:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return None


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
