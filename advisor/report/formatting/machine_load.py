"""Describe the load of the machine before a measurement."""

from __future__ import annotations

from advisor.domain.machine import MachineActivity, QuietCheck, QuietProblem
from advisor.system.number_format import format_share


def describe_check(check: QuietCheck, *, waits: bool) -> str | None:
    """Return a line on the check; None for a machine that was quiet at once."""
    problems = "; ".join(describe_problem(problem, check.load) for problem in check.problems)
    waited, allowed = f"{check.waited_seconds:.0f} s", f"{check.allowed_seconds:.0f} s"
    if not problems:
        return f"the machine is quiet after {waited}" if check.waited_seconds else None
    if waits:
        return f"the machine is not quiet: {problems}; waiting up to {allowed}"
    if check.allowed_seconds:
        return f"warning: after {waited} the machine is not quiet: {problems}; measuring anyway"
    return f"warning: the machine is not quiet: {problems}; --wait-for-quiet 5min would wait"


def describe_problem(problem: QuietProblem, load: MachineActivity) -> str:
    """Return what keeps the machine from being quiet, with its figure."""
    idle, usable = load.idle_processors or 0.0, load.usable_processors
    count = len(load.gpu_processes)
    match problem:
        case "cpu-busy":
            return f"only {idle:.1f} of {usable} usable processors are idle"
        case "cpu-stolen":
            stolen = format_share(load.stolen_share or 0.0)
            return f"the hypervisor takes {stolen} of the processors' time"
        case "gpu-processes":
            return f"{count} other process{'es use' if count > 1 else ' uses'} the GPU"
        case "gpu-busy":
            busy = format_share(load.gpu_busy_share or 0.0)
            return f"other work keeps the GPU busy for {busy} of the time"
        case "gpu-clocks-held-down":
            heat = f" at {load.temperature_c} \N{DEGREE SIGN}C" if load.temperature_c else ""
            return f"heat or a fault holds the GPU's clocks down{heat}"
