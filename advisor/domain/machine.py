"""The machine that a run measures on."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

#: NVML's clocks-event reasons: hardware slowdown, software and hardware thermal slowdown, and
#: hardware power brake.
THROTTLE_BITS = 0x8 | 0x20 | 0x40 | 0x80


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The processor and memory available to this process."""

    model: str
    physical_cores: int
    #: Logical processors in the affinity mask, limited by the cgroup's CPU quota.
    usable_processors: int
    memory_bytes: int


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that uses a GPU.

    In a container the process id is the host's and the name is null.
    """

    pid: int
    memory_bytes: int | None
    name: str | None


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One NVIDIA GPU as NVML reports it; null for missing fields."""

    index: int
    uuid: str
    name: str
    compute_capability: Annotated[str, msgspec.Meta(pattern=r"^\d{1,4}\.\d{1,4}$")]
    memory_bytes: int
    free_memory_bytes: int
    driver: str
    cuda_driver: str
    sm_clock_max_mhz: int | None = None
    #: Current and default power limit.
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    ecc: bool | None = None
    #: Whether MIG mode is on.
    mig: bool | None = None
    #: Active NVLinks; null for a GPU without NVLink.
    nvlinks: int | None = None
    #: Processes that used the GPU when it was inspected.
    processes: tuple[GpuProcess, ...] = ()
    #: Number of these processes that share the GPU through MPS.
    mps_processes: int = 0


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """A Python interpreter that can run workers, with its packages."""

    executable: str
    version: str
    #: Versions by distribution, for distributions that a workflow requires.
    packages: dict[str, str]
    #: CUDA version of its torch; null for a CPU build or without torch.
    torch_cuda: str | None


class CreatedEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """An environment created on this machine for one or more workflows."""

    name: str
    python: str
    #: Digest of its lock file.
    digest: str
    #: Why it cannot be used; null if it can.
    fault: str | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that a run measures on."""

    cpu: Cpu
    gpus: tuple[Gpu, ...]
    #: NVML's error: why it lists no GPU, or which GPUs it cannot read; null without an error.
    gpu_problem: str | None
    kernel: str
    software: Interpreter
    #: The created environments by name.
    environments: dict[str, CreatedEnvironment] = {}

    def find_gpu(self, uuid: str | None) -> Gpu | None:
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)


class MachineActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What else runs on the machine while nothing is measured, over some seconds."""

    seconds: float
    #: Processors that this process may use at once. How many were idle, of all on which it may run,
    #: which can be more; and the share of their time that the hypervisor took. Null where the
    #: system does not count it.
    usable_processors: int
    idle_processors: float | None
    stolen_share: float | None = None
    #: State of the measured GPU: other processes, busy share, clock, temperature, and whether heat
    #: or a fault held its clocks down. Null for what it does not report, and without a GPU.
    gpu_processes: tuple[GpuProcess, ...] = ()
    gpu_busy_share: float | None = None
    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    clocks_held_down: bool | None = None


QuietProblem = Literal[
    "cpu-busy", "cpu-stolen", "gpu-processes", "gpu-busy", "gpu-clocks-held-down"
]
#: Why the speed-up of code that ran in turns with other code is only a range: the machine was unfit
#: during most visits, or typical and fastest calls contradict each other.
Doubt = Literal["busy", "contradictory"]


class QuietCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What else ran before the first measurement; without problems the machine was quiet."""

    activity: MachineActivity
    problems: tuple[QuietProblem, ...]
    #: Seconds waited for a quiet machine so far, and the most that the user allows.
    waited_seconds: float = 0.0
    allowed_seconds: float = 0.0


def describe_gpus(name: str, count: int) -> str:
    """Return the name of this many equal GPUs, as `2x NVIDIA H200`."""
    return name if count == 1 else f"{count}x {name}"
