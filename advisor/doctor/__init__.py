"""What is wrong with this machine for probing, each finding with its fix."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
import uv

from advisor import applicability, catalogue, machine, question
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Gpu, Machine
from advisor.errors import DividedGpuError
from advisor.probing.environments import health, places

CPU_LOAD_LIMIT = 0.5
GIBIBYTE = 2**30
#: What the name of a finding about an environment begins with.
ENVIRONMENT = "environment "


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at."""

    name: str
    status: Literal["ok", "warn", "fail"]
    what: str
    fix: str | None = None


def examine(
    python: str, home: pathlib.Path, variables: Mapping[str, str] = os.environ
) -> list[Finding]:
    """Return the findings, in the order in which one would mend them."""
    known = catalogue.load()
    here = machine.detect(python, applicability.required_packages(known))
    return [
        Finding(
            name="python",
            status="ok",
            what=f"{here.software.executable}, Python {here.software.version}",
        ),
        look_at_torch(here),
        look_at_service(here, known),
        look_at_gpu(here, variables.get(question.VISIBLE_DEVICES)),
        *look_at_gpus(here),
        look_at_compiler(),
        look_at_load(),
        look_at_home(home),
        look_at_uv(),
        *look_at_environments(known, variables),
    ]


def look_at_uv() -> Finding:
    """Say whether environments can be made."""
    try:
        return Finding(name="uv", status="ok", what=str(uv.find_uv_bin()))
    except FileNotFoundError:
        return Finding(
            name="uv",
            status="warn",
            what="none: environments cannot be made for workflows",
            fix="pip install uv",
        )


def look_at_environments(known: Catalogue, variables: Mapping[str, str]) -> list[Finding]:
    """Start each environment that was made, and say whether it still does what it was made for."""
    findings = []
    own = places.own_environments(known.workflows)
    for name, made in places.find_made(
        places.default_root(variables), known.workflows, catalogue.rubric_directory()
    ).items():
        directory = pathlib.Path(made.python).parents[1]
        fault = made.fault or health.check(directory, own[name], variables).fault
        what, fix = (
            (fault, f"p3-advisor env create {name}, or p3-advisor doctor --repair")
            if fault
            else (str(directory), None)
        )
        findings.append(
            Finding(name=ENVIRONMENT + name, status="fail" if fault else "ok", what=what, fix=fix)
        )
    return findings


def broken_environments(findings: Iterable[Finding]) -> list[str]:
    """Return the names of the environments that do not work."""
    return [
        each.name.removeprefix(ENVIRONMENT)
        for each in findings
        if each.name.startswith(ENVIRONMENT) and each.status == "fail"
    ]


def look_at_torch(here: Machine) -> Finding:
    """Say whether the interpreter has a torch that a worker can use."""
    version = here.software.packages.get("torch")
    if version is None:
        fix = f"{here.software.executable} -m pip install 'p3-advisor[stack]', or name another interpreter with --python"
        return Finding(
            name="torch",
            status="fail",
            what="not installed: there is no baseline to compare with",
            fix=fix,
        )
    build = f"CUDA {here.software.torch_cuda}" if here.software.torch_cuda else "CPU"
    return Finding(name="torch", status="ok", what=f"{version}, built for {build}")


def look_at_service(here: Machine, known: Catalogue) -> Finding:
    """Say which workflows the interpreter can serve as it is."""
    served = [
        workflow.id for workflow in known.workflows if applicability.is_served(workflow, here)
    ]
    fix = None if served else "name an interpreter that has the stacks with --python"
    return Finding(
        name="serves",
        status="ok" if served else "fail",
        what=", ".join(served) or "no workflow",
        fix=fix,
    )


def look_at_gpu(here: Machine, visible: str | None = None) -> Finding:
    """Say which GPU would be measured, or why none."""
    if not here.gpus:
        what = f"none: {here.gpu_problem or 'NVIDIA lists no device'}; probes run on the CPU"
        return Finding(
            name="gpu", status="warn", what=what, fix="install the NVIDIA driver if there is a GPU"
        )
    try:
        gpu = question.choose_visible_gpu(here.gpus, visible)
    except DividedGpuError as problem:
        return Finding(name="gpu", status="warn", what=problem.what, fix=problem.next_step)
    if gpu is None:
        what = f"none: {question.VISIBLE_DEVICES} is {visible!r}; probes run on the CPU"
        return Finding(
            name="gpu",
            status="warn",
            what=what,
            fix=f"unset {question.VISIBLE_DEVICES}, or name a GPU with --gpu",
        )
    free, total = gpu.free_memory_bytes / GIBIBYTE, gpu.memory_bytes / GIBIBYTE
    what = f"{gpu.name}, compute capability {gpu.compute_capability}, {free:.1f} of {total:.1f} GiB free"
    if here.software.torch_cuda is None:
        return Finding(
            name="gpu",
            status="warn",
            what=f"{what}; torch is a CPU build, so it is not used",
            fix="install a CUDA build of torch",
        )
    return Finding(name="gpu", status="ok", what=f"{what}, driver {gpu.driver}")


def look_at_gpus(here: Machine) -> list[Finding]:
    """Say what each GPU is, and what on it would disturb a measurement or change what it is worth."""
    findings = []
    for gpu in here.gpus:
        facts = [f"{gpu.name}, {gpu.uuid}"]
        facts += [f"SM clock up to {gpu.sm_clock_max_mhz} MHz"] if gpu.sm_clock_max_mhz else []
        facts += [f"{gpu.power_limit_w:.0f} W"] if gpu.power_limit_w else []
        facts += [f"ECC {'on' if gpu.ecc else 'off'}"] if gpu.ecc is not None else []
        facts += [f"{gpu.nvlinks} NVLinks"] if gpu.nvlinks else []
        troubles = troubles_of(gpu)
        what = ", ".join(facts) + "".join(f"; {trouble}" for trouble, _ in troubles)
        fix = "; ".join(cure for _, cure in troubles) or None
        findings.append(
            Finding(
                name=f"gpu {gpu.index}", status="warn" if troubles else "ok", what=what, fix=fix
            )
        )
    if here.gpus and here.gpu_problem:
        findings.append(
            Finding(
                name="nvml",
                status="warn",
                what=here.gpu_problem,
                fix="reset or replace the GPU that does not answer",
            )
        )
    return findings


def troubles_of(gpu: Gpu) -> list[tuple[str, str]]:
    """Return what is amiss with a GPU, each with what helps."""
    troubles = []
    if gpu.processes:
        held = sum(process.memory_bytes or 0 for process in gpu.processes) / GIBIBYTE
        names = sorted({process.name for process in gpu.processes if process.name})
        who = (
            ", ".join(names)
            if names
            else "not to be seen from in here: their numbers are the host's"
        )
        troubles.append(
            (
                f"{len(gpu.processes)} others compute on it and hold {held:.1f} GiB ({who})",
                "end them before measuring",
            )
        )
    if gpu.mps_processes:
        troubles.append(
            (
                "it is shared through MPS",
                "measure without MPS: neighbours take turns with what is timed",
            )
        )
    if gpu.mig:
        troubles.append(
            (
                "it is cut into MIG instances, which are not measured",
                "switch MIG off, or name another GPU with --gpu",
            )
        )
    if (
        gpu.power_limit_w
        and gpu.power_limit_default_w
        and gpu.power_limit_w < gpu.power_limit_default_w
    ):
        limits = f"{gpu.power_limit_w:.0f} W instead of {gpu.power_limit_default_w:.0f} W"
        troubles.append(
            (
                f"its power is limited to {limits}",
                "the advice holds for this limit only; nvidia-smi -pl raises it",
            )
        )
    return troubles


def look_at_compiler() -> Finding:
    """Say whether there is a C++ compiler, which Inductor needs on the CPU and AOTInductor everywhere."""
    found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if found:
        return Finding(name="c++ compiler", status="ok", what=found)
    what = "none: torch.compile on the CPU and AOTInductor will fail to build"
    return Finding(name="c++ compiler", status="warn", what=what, fix="install g++")


def look_at_load() -> Finding:
    """Say whether other work would disturb the timing."""
    # The load is that of the whole host, which no limit of a control group makes smaller.
    load = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    if load > CPU_LOAD_LIMIT:
        fix = "end other work before measuring"
        return Finding(
            name="load", status="warn", what=f"{load:.0%} of the processors are busy", fix=fix
        )
    return Finding(name="load", status="ok", what=f"{load:.0%} of the processors are busy")


def look_at_home(home: pathlib.Path) -> Finding:
    """Say whether runs can be stored."""
    place = next((parent for parent in (home, *home.parents) if parent.exists()), home)
    if os.access(place, os.W_OK):
        return Finding(
            name="runs",
            status="ok",
            what=f"{home}, {shutil.disk_usage(place).free / GIBIBYTE:.0f} GiB free",
        )
    return Finding(
        name="runs",
        status="fail",
        what=f"{home} cannot be written",
        fix="set P3_ADVISOR_HOME to a writable directory",
    )
