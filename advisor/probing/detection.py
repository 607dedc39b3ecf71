"""Detect the machine: processor, GPUs, interpreter."""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import platform
import subprocess
from collections.abc import Collection, Iterable
from typing import Any

import msgspec
import psutil

from advisor.domain.errors import InterpreterError
from advisor.domain.import_path import WITHOUT_CURRENT_DIRECTORY, without_current_directory
from advisor.domain.machine import Cpu, Gpu, Interpreter, Machine
from advisor.probing.cgroups import PROC, Cgroups
from advisor.probing.nvml import Device

#: Runs in the inspected interpreter with its standard library only. It reads torch's version file
#: and does not import torch.
INTERPRETER_SCRIPT = f"""{WITHOUT_CURRENT_DIRECTORY}
import importlib.metadata as metadata, importlib.util as util, json, pathlib, platform, runpy, sys
names = sys.argv[1:]
packages = {{}}
for name in names:
    try:
        packages[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
cuda = None
spec = util.find_spec("torch")
if spec is not None and spec.origin:
    cuda = runpy.run_path(str(pathlib.Path(spec.origin).parent / "version.py")).get("cuda")
print(json.dumps({{
    "executable": sys.executable,
    "version": platform.python_version(),
    "packages": packages,
    "torch_cuda": cuda,
}}))
"""
CPU_DIRECTORY = pathlib.Path("/sys/devices/system/cpu")
CPU_INFO = pathlib.Path("/proc/cpuinfo")


def detect(python: str, packages: Iterable[str]) -> Machine:
    """Describe this machine; raise `InterpreterError` if the interpreter `python` does not run."""
    gpus, problem = detect_gpus()
    return Machine(
        cpu=detect_cpu(),
        gpus=gpus,
        gpu_problem=problem,
        kernel=f"{platform.system()} {platform.release()}",
        software=detect_interpreter(python, packages),
    )


def detect_cpu(proc: pathlib.Path = PROC, cpu_directory: pathlib.Path = CPU_DIRECTORY) -> Cpu:
    """Return the processor within the limits of this process's affinity and cgroups."""
    usable, cgroups = os.sched_getaffinity(0), Cgroups(proc)
    limit = max(math.floor(cgroups.cpu_limit() or len(usable)), 1)
    memory = psutil.virtual_memory().total
    return Cpu(
        model=cpu_model(),
        physical_cores=min(count_cores(usable, cpu_directory), limit),
        usable_processors=min(len(usable), limit),
        memory_bytes=min(memory, cgroups.memory_limit_bytes() or memory),
    )


def count_cores(usable: Collection[int], cpu_directory: pathlib.Path = CPU_DIRECTORY) -> int:
    """Return the number of physical cores of these processors.

    If the kernel does not describe the topology, it is at most the number of all physical cores.
    """
    try:
        return len(
            {
                (cpu_directory / f"cpu{number}/topology/core_cpus_list").read_text(encoding="ascii")
                for number in usable
            }
        )
    except OSError:
        return min(psutil.cpu_count(logical=False) or len(usable), len(usable))


def cpu_model(file: pathlib.Path = CPU_INFO) -> str:
    return _find_cpu_info("model name", file=file) or platform.processor() or platform.machine()


def detect_cpu_flags(file: pathlib.Path = CPU_INFO) -> frozenset[str]:
    """Return the kernel's names of what the processor can do, such as `amx_bf16`."""
    # x86 has `flags`, Arm `Features`.
    return frozenset(_find_cpu_info("flags", "Features", file=file).split())


def _find_cpu_info(*names: str, file: pathlib.Path) -> str:
    """Return what the kernel says of the first processor under one of these names; else nothing."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found = (line.partition(":")[2].strip() for line in lines if line.startswith(names))
    return next(found, "")


def detect_interpreter(python: str, packages: Iterable[str]) -> Interpreter:
    try:
        answer = subprocess.run(  # noqa: S603 - an argument list, no shell
            [python, "-c", INTERPRETER_SCRIPT, *packages],
            capture_output=True,
            timeout=60,
            check=True,
            env=without_current_directory(os.environ),
        )
        return msgspec.json.decode(answer.stdout, type=Interpreter)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as problem:
        # The text of the others has the whole script.
        reason = getattr(problem, "strerror", None) or "it does not answer as one"
        raise InterpreterError(
            f"{python!r} does not run as a Python interpreter: {reason}",
            "name another interpreter with --python",
        ) from problem


def detect_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """Return the readable NVIDIA GPUs, and the error of the library or of the other GPUs."""
    try:
        import pynvml  # noqa: PLC0415 - not needed by commands that do not inspect the machine
    except ImportError as problem:
        return (), f"the Python package nvidia-ml-py is missing: {problem}"
    found: list[Gpu | str] = []
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        found += [_read_gpu_or_error(pynvml, index) for index in range(count)]
    except pynvml.NVMLError as problem:
        found.append(str(problem))
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()
    problems = "; ".join(each for each in found if isinstance(each, str))
    return tuple(each for each in found if isinstance(each, Gpu)), problems or None


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
    device = Device(library, lambda: handle)
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
        power_limit_w=device.watts("nvmlDeviceGetEnforcedPowerLimit"),
        power_limit_default_w=device.watts("nvmlDeviceGetPowerManagementDefaultLimit"),
        ecc=device.current_flag("nvmlDeviceGetEccMode"),
        mig=device.current_flag("nvmlDeviceGetMigMode"),
        nvlinks=device.count_active_nvlinks(),
        processes=device.processes("nvmlDeviceGetComputeRunningProcesses"),
        mps_processes=len(device.processes("nvmlDeviceGetMPSComputeRunningProcesses")),
    )


def _decode(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
