"""Check this machine for problems that prevent or disturb measurements."""

from __future__ import annotations

import os
import pathlib
import shutil
import statistics
import time
from collections.abc import Iterable, Mapping

import uv

from advisor.applicability.installation import has_stack_in_interpreter, required_packages
from advisor.catalogue.rubric_files import load, rubric_directory
from advisor.doctor.findings import Finding
from advisor.doctor.gpu_checks import GIBIBYTE, check_each_gpu, check_selected_gpu
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.machine import detection
from advisor.probing.environments import health, registry
from advisor.question.devices import VISIBLE_DEVICES
from advisor.system.number_format import format_share
from advisor.version import how_to_install
from probes.measuring import host_probe

#: Share of the processors from which other work disturbs the timing.
MAX_CPU_LOAD = 0.5
#: Readings of the host's speed, the pause between them, and the spread that is worth a warning.
HOST_READINGS, HOST_PAUSE_SECONDS = 60, 0.01
MAX_HOST_SPREAD = 0.2
#: Prefix of the name of an environment's finding.
ENVIRONMENT_PREFIX = "environment "


def examine(
    python: str, home: pathlib.Path, variables: Mapping[str, str] = os.environ
) -> list[Finding]:
    """Return the findings in the order in which a user would fix them."""
    catalogue = load()
    detected = detection.detect(python, required_packages(catalogue))
    software = detected.software
    return [
        Finding(
            name="python", status="ok", what=f"{software.executable}, Python {software.version}"
        ),
        check_torch(detected),
        check_served_workflows(detected, catalogue),
        check_selected_gpu(detected, variables.get(VISIBLE_DEVICES)),
        *check_each_gpu(detected),
        check_compiler(),
        check_load(),
        check_host_speed(),
        check_home(home),
        check_uv(),
        *check_environments(catalogue, variables),
    ]


def check_uv() -> Finding:
    """Report whether environments can be created."""
    try:
        return Finding(name="uv", status="ok", what=str(uv.find_uv_bin()))
    except FileNotFoundError:
        return Finding(
            name="uv",
            status="warn",
            what="not found: environments for workflows cannot be created",
            fix="pip install uv",
        )


def check_environments(catalogue: Catalogue, variables: Mapping[str, str]) -> list[Finding]:
    """Start each environment that was created and report whether it works."""
    findings = []
    own = registry.own_environments(catalogue.workflows)
    created = registry.find_created(
        registry.default_root(variables), catalogue.workflows, rubric_directory()
    )
    for name, environment in created.items():
        directory = pathlib.Path(environment.python).parents[1]
        fault = environment.fault or health.check(directory, own[name], variables).fault
        fix = f"p3-advisor env create {name}, or p3-advisor doctor --repair"
        findings.append(
            Finding(
                name=ENVIRONMENT_PREFIX + name,
                status="fail" if fault else "ok",
                what=fault or str(directory),
                fix=fix if fault else None,
            )
        )
    return findings


def broken_environments(findings: Iterable[Finding]) -> list[str]:
    """Return the names of the environments that do not work."""
    return [
        finding.name.removeprefix(ENVIRONMENT_PREFIX)
        for finding in findings
        if finding.name.startswith(ENVIRONMENT_PREFIX) and finding.status == "fail"
    ]


def check_torch(detected: Machine) -> Finding:
    """Report whether the interpreter has torch, which the baseline needs."""
    version = detected.software.packages.get("torch")
    if version is None:
        return Finding(
            name="torch",
            status="fail",
            what="not installed: the baseline cannot run",
            fix=f"{how_to_install('stack', f'{detected.software.executable} -m pip')}, or name "
            "another interpreter with --python",
        )
    build = f"CUDA {detected.software.torch_cuda}" if detected.software.torch_cuda else "CPU"
    return Finding(name="torch", status="ok", what=f"{version}, built for {build}")


def check_served_workflows(detected: Machine, catalogue: Catalogue) -> Finding:
    """Report the workflows whose packages the interpreter has."""
    served = [
        workflow.id
        for workflow in catalogue.workflows
        if has_stack_in_interpreter(workflow, detected)
    ]
    return Finding(
        name="workflows",
        status="ok" if served else "fail",
        what=", ".join(served) or "no workflow",
        fix=None if served else "name an interpreter that has the stacks with --python",
    )


def check_compiler() -> Finding:
    """Report the C++ compiler, which Inductor needs on the CPU and AOTInductor on every device."""
    found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if found:
        return Finding(name="c++ compiler", status="ok", what=found)
    return Finding(
        name="c++ compiler",
        status="warn",
        what="not found: torch.compile on the CPU and AOTInductor cannot build",
        fix="install g++",
    )


def check_load() -> Finding:
    """Report whether other work would disturb the timing."""
    # The load average is that of the whole host, also within a cgroup.
    load = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    what = f"the load average of one minute is {format_share(load)} of the usable CPUs"
    if load > MAX_CPU_LOAD:
        return Finding(name="load", status="warn", what=what, fix="end other work first")
    return Finding(name="load", status="ok", what=what)


def check_host_speed() -> Finding:
    """Report how much the speed of this processor changes within about a second."""
    seconds = []
    for _ in range(HOST_READINGS):
        seconds.append(host_probe.time_host())
        time.sleep(HOST_PAUSE_SECONDS)
    ordered, outer = sorted(seconds), HOST_READINGS // 20
    spread = (ordered[-1 - outer] - ordered[outer]) / statistics.median(seconds)
    what = (
        f"the same work takes times within {format_share(spread)} of their median,"
        f" over {HOST_READINGS} readings"
    )
    if spread > MAX_HOST_SPREAD:
        fix = "end other work, or expect wide intervals where calls wait for the host"
        return Finding(name="host speed", status="warn", what=what, fix=fix)
    return Finding(name="host speed", status="ok", what=what)


def check_home(home: pathlib.Path) -> Finding:
    """Report whether runs can be stored."""
    existing = next((parent for parent in (home, *home.parents) if parent.exists()), home)
    if os.access(existing, os.W_OK):
        free = shutil.disk_usage(existing).free / GIBIBYTE
        return Finding(name="runs", status="ok", what=f"{home}, {free:.0f} GiB free")
    return Finding(
        name="runs",
        status="fail",
        what=f"{home} is not writable",
        fix="set P3_ADVISOR_HOME to a writable directory",
    )
