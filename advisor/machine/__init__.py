"""Stage: what is here -> `Machine`.

Reads the operating system, NVIDIA's management library and the interpreter; imports no stack.
"""

from __future__ import annotations

import math
import os
import pathlib
import platform
import subprocess
from collections.abc import Callable, Collection, Iterable

import msgspec
import psutil

from advisor.domain.machine import Cpu, Interpreter, Machine
from advisor.errors import InterpreterError
from advisor.machine.gpus import detect_gpus
from advisor.system.cgroups import PROC, ControlGroups

#: Run by the interpreter in question, with its standard library only: torch is looked at, never
#: imported.
INTERPRETER_SCRIPT = """
import importlib.metadata as metadata, importlib.util as util, json, pathlib, platform, runpy, sys
names = sys.argv[1:]
packages = {}
for name in names:
    try:
        packages[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
cuda = None
spec = util.find_spec("torch")
if spec is not None and spec.origin:
    cuda = runpy.run_path(str(pathlib.Path(spec.origin).parent / "version.py")).get("cuda")
print(json.dumps({"executable": sys.executable, "version": platform.python_version(), "packages": packages, "torch_cuda": cuda}))
"""
INTERPRETER_SECONDS = 60
#: Where the kernel says how the processors are made up.
PROCESSORS = pathlib.Path("/sys/devices/system/cpu")

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def detect(python: str, packages: Iterable[str], *, run: Run = subprocess.run) -> Machine:
    """Return the machine with the interpreter `python` and its versions of `packages`; raise `InterpreterError` if that does not run."""
    gpus, problem = detect_gpus()
    return Machine(
        cpu=detect_cpu(),
        gpus=gpus,
        gpu_problem=problem,
        kernel=f"{platform.system()} {platform.release()}",
        software=detect_interpreter(python, packages, run=run),
    )


def detect_cpu(proc: pathlib.Path = PROC, processors: pathlib.Path = PROCESSORS) -> Cpu:
    """Return the processor as this process may use it: what its affinity names, and no more than its control groups give it the time of."""
    usable, groups = os.sched_getaffinity(0), ControlGroups(proc)
    most = max(math.floor(groups.processors() or len(usable)), 1)
    memory = psutil.virtual_memory().total
    return Cpu(
        model=cpu_model(),
        physical_cores=min(count_cores(usable, processors), most),
        usable_processors=min(len(usable), most),
        memory_bytes=min(memory, groups.memory_bytes() or memory),
    )


def count_cores(usable: Collection[int], processors: pathlib.Path = PROCESSORS) -> int:
    """Return on how many cores these processors are; where the kernel does not say, no more than there are in all."""
    try:
        return len(
            {
                (processors / f"cpu{number}/topology/core_cpus_list").read_text(encoding="ascii")
                for number in usable
            }
        )
    except OSError:
        return min(psutil.cpu_count(logical=False) or len(usable), len(usable))


def cpu_model(file: pathlib.Path = pathlib.Path("/proc/cpuinfo")) -> str:
    """Return the processor's name as the kernel tells it."""
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
    """Ask `python` what it is and which of `packages` it has."""
    try:
        answer = run(
            [python, "-c", INTERPRETER_SCRIPT, *packages],
            capture_output=True,
            timeout=INTERPRETER_SECONDS,
            check=True,
        )
        return msgspec.json.decode(answer.stdout, type=Interpreter)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as problem:
        raise InterpreterError(
            f"{python!r} does not run as a Python interpreter: {problem}",
            "name another with --python",
        ) from problem
