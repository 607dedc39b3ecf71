"""Check this machine for problems that prevent or disturb measurements."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Literal

import msgspec
import uv

from advisor.ask.catalogue_files import catalogue_directory, load
from advisor.ask.devices import VISIBLE_DEVICES, choose_visible_gpu
from advisor.ask.obstacles import has_stack_in_interpreter, required_packages
from advisor.domain.catalogue import Catalogue
from advisor.domain.errors import MigEnabledError
from advisor.domain.machine import Gpu, Machine
from advisor.domain.text import GIBIBYTE, format_share
from advisor.domain.version import how_to_install
from advisor.probing import detection, env_creation, env_registry

#: Share of the processors from which other work disturbs the timing.
MAX_BUSY_SHARE = 0.5
#: GiB on the disk of the runs: the caches of a run's builds take some hundred MiB.
LEAST_FREE = 1.0
RUNS_ELSEWHERE = "set P3_ADVISOR_HOME to a writable directory on a disk with free space"


class Finding(msgspec.Struct, frozen=True):
    """The result of one check, with the step that fixes a problem."""

    name: str
    status: Literal["ok", "warn", "fail"]
    what: str
    fix: str | None = None


def examine(python: str, home: pathlib.Path, variables: Mapping[str, str]) -> list[Finding]:
    """Return the findings in the order in which a user would fix them."""
    catalogue = load()
    detected = detection.detect(python, required_packages(catalogue))
    software = detected.software
    return [
        Finding("python", "ok", f"{software.executable}, Python {software.version}"),
        check_torch(detected),
        check_served_workflows(detected, catalogue),
        check_selected_gpu(detected, variables.get(VISIBLE_DEVICES)),
        *check_each_gpu(detected),
        check_compiler(variables),
        check_processors(),
        check_home(home),
        check_uv(),
        *check_environments(catalogue, variables),
    ]


def check_uv() -> Finding:
    try:
        return Finding("uv", "ok", str(uv.find_uv_bin()))
    except FileNotFoundError:
        what = "not found: environments for workflows cannot be created"
        return Finding("uv", "warn", what, "pip install uv")


def check_environments(catalogue: Catalogue, variables: Mapping[str, str]) -> list[Finding]:
    """Start each environment that was created and report whether it works."""
    findings = []
    own = env_registry.own_environments(catalogue.workflows)
    created = env_registry.find_created(
        env_registry.default_root(variables), catalogue.workflows, catalogue_directory()
    )
    for name, environment in created.items():
        directory = pathlib.Path(environment.python).parents[1]
        fault = environment.fault or env_creation.find_fault(directory, own[name], variables)
        checked = f"environment {name}"
        fix = f"p3-advisor env create {name}"
        findings.append(
            Finding(checked, "fail", fault, fix)
            if fault
            else Finding(checked, "ok", str(directory))
        )
    return findings


def check_torch(detected: Machine) -> Finding:
    version = detected.software.packages.get("torch")
    if version is None:
        install = how_to_install("stack", f"{detected.software.executable} -m pip")
        fix = f"{install}, or name another interpreter with --python"
        return Finding("torch", "fail", "not installed: the baseline cannot run", fix)
    build = f"CUDA {detected.software.torch_cuda}" if detected.software.torch_cuda else "CPU"
    return Finding("torch", "ok", f"{version}, built for {build}")


def check_served_workflows(detected: Machine, catalogue: Catalogue) -> Finding:
    devices = {"cpu", "cuda"} if detected.gpus else {"cpu"}
    served = [
        workflow.id
        for workflow in catalogue.workflows
        if devices.intersection(workflow.devices) and has_stack_in_interpreter(workflow, detected)
    ]
    if served:
        return Finding("workflows", "ok", ", ".join(served))
    fix = "name an interpreter that has the stacks with --python"
    return Finding("workflows", "fail", "no workflow", fix)


def check_compiler(variables: Mapping[str, str]) -> Finding:
    found = variables.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if found:
        return Finding("c++ compiler", "ok", found)
    what = "not found: torch.compile on the CPU and AOTInductor cannot build"
    return Finding("c++ compiler", "warn", what, "install g++")


def check_processors() -> Finding:
    # The load average is that of the whole host, also within a cgroup.
    busy = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    what = f"over the last minute, work for {format_share(busy)} of the usable ones ran or waited"
    if busy > MAX_BUSY_SHARE:
        return Finding("processors", "warn", what, "end other work first")
    return Finding("processors", "ok", what)


def check_home(home: pathlib.Path) -> Finding:
    existing = next((parent for parent in (home, *home.parents) if parent.exists()), home)
    if existing.is_dir() and os.access(existing, os.W_OK):
        free = shutil.disk_usage(existing).free / GIBIBYTE
        what = f"{home}, {free:.1f} GiB free"
        if free < LEAST_FREE:
            return Finding("runs", "warn", what, RUNS_ELSEWHERE)
        return Finding("runs", "ok", what)
    return Finding("runs", "fail", f"{home} is no writable directory", RUNS_ELSEWHERE)


def check_selected_gpu(machine: Machine, visible_devices: str | None = None) -> Finding:
    """Report the GPU that is measured by default, or why it is the CPU."""
    if not machine.gpus:
        reason = machine.gpu_problem or "NVIDIA's library lists no device"
        fix = "install the NVIDIA driver if there is a GPU"
        return Finding("gpu", "warn", f"none: {reason}; the CPU is measured", fix)
    try:
        gpu = choose_visible_gpu(machine.gpus, visible_devices)
    except MigEnabledError as problem:
        return Finding("gpu", "warn", problem.what, problem.next_step)
    if gpu is None:
        what = f"none: {VISIBLE_DEVICES} is {visible_devices!r}; the CPU is measured"
        return Finding("gpu", "warn", what, f"unset {VISIBLE_DEVICES}, or name a GPU with --gpu")
    free, total = gpu.free_memory_bytes / GIBIBYTE, gpu.memory_bytes / GIBIBYTE
    what = (
        f"{gpu.name}, compute capability {gpu.compute_capability}, "
        f"{free:.1f} of {total:.1f} GiB free"
    )
    if machine.software.torch_cuda is None:
        what += "; torch is a CPU build and cannot use it"
        return Finding("gpu", "warn", what, "install a CUDA build of torch")
    return Finding("gpu", "ok", f"{what}, driver {gpu.driver}")


def check_each_gpu(machine: Machine) -> list[Finding]:
    findings = []
    for gpu in machine.gpus:
        facts = [f"{gpu.name}, {gpu.uuid}"]
        facts += [f"SM clock up to {gpu.sm_clock_max_mhz} MHz"] if gpu.sm_clock_max_mhz else []
        facts += [f"{gpu.power_limit_w:.0f} W"] if gpu.power_limit_w else []
        facts += [f"ECC {'on' if gpu.ecc else 'off'}"] if gpu.ecc is not None else []
        facts += [f"{gpu.nvlinks} NVLinks"] if gpu.nvlinks else []
        problems = find_problems(gpu)
        what = "; ".join([", ".join(facts), *problems])
        fix = "; ".join(problems.values()) or None
        findings.append(Finding(f"gpu {gpu.index}", "warn" if problems else "ok", what, fix))
    if machine.gpus and machine.gpu_problem:
        fix = "reset or replace the GPU that does not respond"
        findings.append(Finding("nvml", "warn", machine.gpu_problem, fix))
    return findings


def find_problems(gpu: Gpu) -> dict[str, str]:
    """Return what on the GPU would disturb a measurement, each with the step that fixes it."""
    limit, default = gpu.power_limit_w or 0.0, gpu.power_limit_default_w or 0.0
    found = {
        _describe_processes(gpu): (gpu.processes, "end them before you measure"),
        "it is shared through MPS": (
            gpu.mps_processes,
            "measure without MPS: other clients share the GPU with the timed calls",
        ),
        "it is partitioned into MIG instances, which cannot be measured": (
            gpu.mig,
            "disable MIG, or name another GPU with --gpu",
        ),
        f"its power is limited to {limit:.0f} W instead of {default:.0f} W": (
            0 < limit < default,
            "the results hold for this limit only; nvidia-smi -pl raises it",
        ),
    }
    return {problem: step for problem, (applies, step) in found.items() if applies}


def _describe_processes(gpu: Gpu) -> str:
    held = sum(process.memory_bytes or 0 for process in gpu.processes) / GIBIBYTE
    names = sorted({process.name for process in gpu.processes if process.name})
    # In a container the process ids are those of the host.
    listed = ", ".join(names) or "names not visible in this container"
    count = len(gpu.processes)
    uses = "other process uses" if count == 1 else "other processes use"
    return f"{count} {uses} it and {held:.1f} GiB of its memory ({listed})"
