"""Stage: what is here -> `Machine`. Reads the operating system, NVIDIA's management library and the interpreter; imports no stack."""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess
from collections.abc import Callable, Iterable

import msgspec
import psutil

from advisor.domain.machine import Cpu, Interpreter, Machine
from advisor.errors import InterpreterError
from advisor.gpus import detect_gpus

#: Run by the interpreter in question, with its standard library only: torch is looked at, never imported.
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


def detect_cpu() -> Cpu:
    """Return the processor as this process may use it."""
    usable = len(os.sched_getaffinity(0))
    return Cpu(
        model=cpu_model(),
        physical_cores=min(psutil.cpu_count(logical=False) or usable, usable),
        usable_processors=usable,
        memory_bytes=psutil.virtual_memory().total,
    )


def cpu_model(file: pathlib.Path = pathlib.Path("/proc/cpuinfo")) -> str:
    """Return the processor's name as the kernel tells it."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def detect_interpreter(python: str, packages: Iterable[str], *, run: Run = subprocess.run) -> Interpreter:
    """Ask `python` what it is and which of `packages` it has."""
    try:
        answer = run([python, "-c", INTERPRETER_SCRIPT, *packages], capture_output=True, timeout=INTERPRETER_SECONDS, check=True)
        return msgspec.json.decode(answer.stdout, type=Interpreter)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as problem:
        raise InterpreterError(f"{python!r} does not run as a Python interpreter: {problem}", "name another with --python") from problem
