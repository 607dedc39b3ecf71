"""Decide whether the machine is quiet enough to measure on, and wait for it.

The limits are in `rubric/presets.toml`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from advisor.ask.activity import ActivityReader
from advisor.context import Context
from advisor.domain.catalogue import QuietLimits
from advisor.domain.machine import Machine, MachineActivity, QuietCheck, QuietProblem
from advisor.domain.run_events import QuietChecked

#: Observes the machine for some seconds.
ReadLoad: TypeAlias = Callable[[float], MachineActivity]


def load_reader(machine: Machine, gpus: Sequence[str], context: Context) -> ReadLoad:
    """Return a function that observes the processors, and the GPUs with these UUIDs."""
    reader = ActivityReader(machine.cpu.usable_processors, gpus)
    return lambda seconds: reader.read(seconds, context.clock, context.sleep)


def check_now(read: ReadLoad, limits: QuietLimits) -> QuietCheck:
    """Observe the machine for `limits.sample_seconds` and return what was found."""
    load = read(limits.sample_seconds)
    return QuietCheck(load=load, problems=find_problems(load, limits))


def find_problems(load: MachineActivity, limits: QuietLimits) -> tuple[QuietProblem, ...]:
    """Return what keeps the machine from being quiet; empty if it is quiet.

    A figure that the machine does not report is not a problem.
    """
    needed = load.usable_processors * (1 - limits.most_busy_share)
    found: dict[QuietProblem, bool] = {
        # A cgroup may allow fewer processors than the host has: others may keep the rest busy.
        "cpu-busy": load.idle_processors is not None and load.idle_processors < needed,
        "cpu-stolen": (load.stolen_share or 0.0) > limits.most_stolen_share,
        "gpu-processes": bool(load.gpu_processes),
        "gpu-busy": (load.gpu_busy_share or 0.0) > limits.most_gpu_busy_share,
        "gpu-clocks-held-down": bool(load.clocks_held_down),
    }
    return tuple(problem for problem, applies in found.items() if applies)


def wait_until_quiet(
    read: ReadLoad,
    limits: QuietLimits,
    allowed_seconds: float,
    clock: Callable[[], float],
) -> Iterator[QuietChecked]:
    """Check the load, and check it again until the machine is quiet or `allowed_seconds` are over.

    Yield the first check, each one whose problems differ from those before it, and the last one.
    """
    check, reported = check_now(read, limits), None
    # The first observation is made in any case, so it is not waiting.
    start, waited = clock(), 0.0
    while True:
        check = msgspec.structs.replace(
            check, waited_seconds=waited, allowed_seconds=allowed_seconds
        )
        left = allowed_seconds - waited
        waits = bool(check.problems) and left > 0
        if not waits or check.problems != reported:
            yield QuietChecked(check=check, waits=waits)
        if not waits:
            return
        reported = check.problems
        load = read(min(limits.waiting_sample_seconds, left))
        check = QuietCheck(load=load, problems=find_problems(load, limits))
        waited = clock() - start
