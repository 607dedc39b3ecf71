"""Check the GPUs: which one is measured, and what on each would disturb a measurement."""

from __future__ import annotations

from advisor.doctor.findings import Finding
from advisor.domain.machine import Gpu, Machine
from advisor.errors import MigEnabledError
from advisor.question.devices import VISIBLE_DEVICES, choose_visible_gpu

GIBIBYTE = 2**30


def check_selected_gpu(machine: Machine, visible_devices: str | None = None) -> Finding:
    """Report the GPU that is measured by default, or why it is the CPU."""
    if not machine.gpus:
        reason = machine.gpu_problem or "NVIDIA's library lists no device"
        return _warning(
            f"none: {reason}; the CPU is measured", "install the NVIDIA driver if there is a GPU"
        )
    try:
        gpu = choose_visible_gpu(machine.gpus, visible_devices)
    except MigEnabledError as problem:
        return _warning(problem.what, problem.next_step)
    if gpu is None:
        return _warning(
            f"none: {VISIBLE_DEVICES} is {visible_devices!r}; the CPU is measured",
            f"unset {VISIBLE_DEVICES}, or name a GPU with --gpu",
        )
    free, total = gpu.free_memory_bytes / GIBIBYTE, gpu.memory_bytes / GIBIBYTE
    what = (
        f"{gpu.name}, compute capability {gpu.compute_capability}, "
        f"{free:.1f} of {total:.1f} GiB free"
    )
    if machine.software.torch_cuda is None:
        return _warning(
            f"{what}; torch is a CPU build and cannot use it", "install a CUDA build of torch"
        )
    return Finding(name="gpu", status="ok", what=f"{what}, driver {gpu.driver}")


def _warning(what: str, fix: str) -> Finding:
    return Finding(name="gpu", status="warn", what=what, fix=fix)


def check_each_gpu(machine: Machine) -> list[Finding]:
    """Report the properties of each GPU, and what on it would disturb a measurement."""
    findings = []
    for gpu in machine.gpus:
        facts = [f"{gpu.name}, {gpu.uuid}"]
        facts += [f"SM clock up to {gpu.sm_clock_max_mhz} MHz"] if gpu.sm_clock_max_mhz else []
        facts += [f"{gpu.power_limit_w:.0f} W"] if gpu.power_limit_w else []
        facts += [f"ECC {'on' if gpu.ecc else 'off'}"] if gpu.ecc is not None else []
        facts += [f"{gpu.nvlinks} NVLinks"] if gpu.nvlinks else []
        problems = find_problems(gpu)
        what = ", ".join(facts) + "".join(f"; {problem}" for problem, _ in problems)
        fix = "; ".join(step for _, step in problems) or None
        findings.append(
            Finding(
                name=f"gpu {gpu.index}", status="warn" if problems else "ok", what=what, fix=fix
            )
        )
    if machine.gpus and machine.gpu_problem:
        findings.append(
            Finding(
                name="nvml",
                status="warn",
                what=machine.gpu_problem,
                fix="reset or replace the GPU that does not respond",
            )
        )
    return findings


def find_problems(gpu: Gpu) -> list[tuple[str, str]]:
    """Return what on the GPU would disturb a measurement, each with the step that fixes it."""
    problems = []
    if gpu.processes:
        problems.append((_describe_processes(gpu), "end them before you measure"))
    if gpu.mps_processes:
        problems.append(
            (
                "it is shared through MPS",
                "measure without MPS: other clients share the GPU with the timed calls",
            )
        )
    if gpu.mig:
        problems.append(
            (
                "it is partitioned into MIG instances, which cannot be measured",
                "disable MIG, or name another GPU with --gpu",
            )
        )
    limit, default = gpu.power_limit_w, gpu.power_limit_default_w
    if limit and default and limit < default:
        problems.append(
            (
                f"its power is limited to {limit:.0f} W instead of {default:.0f} W",
                "the results hold for this limit only; nvidia-smi -pl raises it",
            )
        )
    return problems


def _describe_processes(gpu: Gpu) -> str:
    held = sum(process.memory_bytes or 0 for process in gpu.processes) / GIBIBYTE
    names = sorted({process.name for process in gpu.processes if process.name})
    # In a container the process ids are those of the host.
    listed = ", ".join(names) or "names not visible in this container"
    count = len(gpu.processes)
    uses = "other process uses" if count == 1 else "other processes use"
    return f"{count} {uses} it and {held:.1f} GiB of its memory ({listed})"
