"""Count a call's CUDA kernels, and how they are launched, with PyTorch's profiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

from probes.measuring.profile import GRAPH_LAUNCHES, KERNEL_LAUNCHES
from probes.stacks import pytorch
from probes.wire.events import Engagement


@dataclasses.dataclass(frozen=True)
class KernelLaunches:
    """The kernels of a call, by any library in the process, and the launches that start them."""

    #: Name of each kernel that ran.
    kernels: tuple[str, ...]
    #: Launches of one kernel each.
    single_launches: int
    #: Launches of a whole captured graph.
    graph_launches: int

    @property
    def share_in_graphs(self) -> float:
        if not self.graph_launches or not self.kernels:
            return 0.0
        return max(len(self.kernels) - self.single_launches, 0) / len(self.kernels)


def count_launches(call: Callable[[], object]) -> KernelLaunches:
    """Profile one call until the device is done."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    pytorch.synchronise()
    with torch.profiler.profile(activities=activities) as profile:
        call()
        pytorch.synchronise()
    return launches_from_events(
        [
            (event.name, event.device_type == torch.autograd.DeviceType.CUDA)
            for event in profile.events()
        ]
    )


def launches_from_events(events: list[tuple[str, bool]]) -> KernelLaunches:
    """Sort profiler events, each a name and whether it ran on the device.

    Copies and fills (`Memcpy`, `Memset`) are not kernels.
    """
    return KernelLaunches(
        kernels=tuple(
            name for name, on_device in events if on_device and not name.startswith("Mem")
        ),
        single_launches=sum(name in KERNEL_LAUNCHES for name, on_device in events if not on_device),
        graph_launches=sum(name in GRAPH_LAUNCHES for name, on_device in events if not on_device),
    )


def graph_engagement(launches: KernelLaunches) -> Engagement:
    """Return the share of the kernels that captured graphs start."""
    kernels, single = len(launches.kernels), launches.single_launches
    if not launches.graph_launches:
        proof = f"no captured graph was launched: {kernels} kernels were launched one by one"
        return Engagement(0.0, proof, facts(launches))
    proof = (
        f"{launches.graph_launches} captured graphs launch the {kernels} kernels of a call; "
        f"{single} are launched one by one"
    )
    return Engagement(launches.share_in_graphs, proof, facts(launches))


def facts(launches: KernelLaunches) -> dict[str, object]:
    """Return the counts as facts of an `Engagement`."""
    return {
        "kernels": len(launches.kernels),
        "launches": launches.single_launches,
        "graph_launches": launches.graph_launches,
    }
