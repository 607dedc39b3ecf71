"""Detect the processor and the interpreter, and collect them with the GPUs as `Machine`."""

from __future__ import annotations

import math
import os
import pathlib
import platform
import subprocess
from collections.abc import Callable, Collection, Iterable

import msgspec
import psutil

from advisor.ask.gpus import detect_gpus
from advisor.domain.machine import Cpu, Interpreter, Machine
from advisor.errors import InterpreterError
from advisor.system.cgroups import PROC, Cgroups
from advisor.system.import_path import WITHOUT_CURRENT_DIRECTORY, without_current_directory

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
INTERPRETER_SECONDS = 60
#: Directory in which the kernel describes the processors.
CPU_DIRECTORY = pathlib.Path("/sys/devices/system/cpu")

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def detect(python: str, packages: Iterable[str], *, run: Run = subprocess.run) -> Machine:
    """Return the machine, with the versions of `packages` in the interpreter `python`.

    Raise `InterpreterError` if the interpreter does not run.
    """
    gpus, problem = detect_gpus()
    return Machine(
        cpu=detect_cpu(),
        gpus=gpus,
        gpu_problem=problem,
        kernel=f"{platform.system()} {platform.release()}",
        software=detect_interpreter(python, packages, run=run),
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


def cpu_model(file: pathlib.Path = pathlib.Path("/proc/cpuinfo")) -> str:
    """Return the processor's model name."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def detect_interpreter(
    python: str, packages: Iterable[str], *, run: Run = subprocess.run
) -> Interpreter:
    """Return the version of `python` and of those `packages` that it has."""
    try:
        answer = run(
            [python, "-c", INTERPRETER_SCRIPT, *packages],
            capture_output=True,
            timeout=INTERPRETER_SECONDS,
            check=True,
            env=without_current_directory(os.environ),
        )
        return msgspec.json.decode(answer.stdout, type=Interpreter)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as problem:
        raise InterpreterError(
            f"{python!r} does not run as a Python interpreter: {problem}",
            "name another interpreter with --python",
        ) from problem
