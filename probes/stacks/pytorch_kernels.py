"""What a call starts on the GPU, by PyTorch's profiler, which sees every CUDA kernel of the process, whoever starts it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

from probes.measuring.profile import GRAPH_LAUNCHES, LAUNCHES
from probes.protocol import Engagement
from probes.stacks import pytorch


@dataclasses.dataclass(frozen=True)
class Started:
    """The kernels of a call by name, how many were started one by one, and how many captured graphs were started as a whole."""

    kernels: tuple[str, ...]
    single: int
    graphs: int

    @property
    def share_in_graphs(self) -> float:
        """Share of the kernels that a captured graph started."""
        if not self.graphs or not self.kernels:
            return 0.0
        return max(len(self.kernels) - self.single, 0) / len(self.kernels)


def watch(call: Callable[[], object]) -> Started:
    """Profile one call to its end."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    pytorch.synchronise()
    with torch.profiler.profile(activities=activities) as profile:
        call()
        pytorch.synchronise()
    return summarise(
        [
            (event.name, event.device_type == torch.autograd.DeviceType.CUDA)
            for event in profile.events()
        ]
    )


def summarise(events: list[tuple[str, bool]]) -> Started:
    """Sort the profiler's events, each with whether it happened on the device; copies and fills are no kernels."""
    return Started(
        kernels=tuple(
            name for name, on_device in events if on_device and not name.startswith("Mem")
        ),
        single=sum(name in LAUNCHES for name, on_device in events if not on_device),
        graphs=sum(name in GRAPH_LAUNCHES for name, on_device in events if not on_device),
    )


def engagement_of_graphs(started: Started) -> Engagement:
    """Return the share of the kernels that captured graphs start: what a workflow that is all about capturing has to prove."""
    if not started.graphs:
        return Engagement(
            0.0,
            f"no captured graph was started: {len(started.kernels)} kernels came one by one",
            facts(started),
        )
    proof = f"{started.graphs} captured graphs hold the {len(started.kernels)} kernels of a call; {started.single} come one by one"
    return Engagement(started.share_in_graphs, proof, facts(started))


def facts(started: Started) -> dict[str, object]:
    """Return what was counted."""
    return {
        "kernels": len(started.kernels),
        "launches": started.single,
        "graph_launches": started.graphs,
    }
