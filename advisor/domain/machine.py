"""What is here to measure on."""

from __future__ import annotations

import msgspec


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The processor as this process may use it."""

    model: str
    physical_cores: int
    #: Logical processors in this process's affinity mask, and no more than its control groups give
    #: it the time of.
    usable_processors: int
    memory_bytes: int


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who computes on a GPU; in a container the number is the host's and the name is not known."""

    pid: int
    memory_bytes: int | None
    name: str | None


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One NVIDIA GPU, as its management library describes it; None for what it does not tell."""

    index: int
    uuid: str
    name: str
    compute_capability: str
    memory_bytes: int
    free_memory_bytes: int
    driver: str
    cuda_driver: str
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    #: In force now, and what the board ships with.
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    ecc: bool | None = None
    #: Whether the GPU is cut into instances.
    mig: bool | None = None
    persistence: bool | None = None
    #: Links that are up; None for a GPU without any.
    nvlinks: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    #: Who computed on it when it was looked at.
    processes: tuple[GpuProcess, ...] = ()
    #: Of them, those that share it through MPS.
    mps_processes: int = 0


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """A Python that can run workers, and what is installed for it."""

    executable: str
    version: str
    #: Versions by distribution name, for the distributions that some workflow asks for.
    packages: dict[str, str]
    #: CUDA version its torch was built for; None for a CPU build or without torch.
    torch_cuda: str | None


class MadeEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """An environment that was made here for some workflows alone."""

    name: str
    python: str
    #: Of the lock it was made from.
    digest: str
    #: Why it cannot be used as it is.
    fault: str | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine a run is made on."""

    cpu: Cpu
    gpus: tuple[Gpu, ...]
    #: Why no GPU is listed, if the management library says so.
    gpu_problem: str | None
    kernel: str
    software: Interpreter
    #: By name.
    environments: dict[str, MadeEnvironment] = {}
    #: docker or podman, and which of the catalogue's images are here.
    engine: str | None = None
    images: tuple[str, ...] = ()

    def find_gpu(self, uuid: str | None) -> Gpu | None:
        """Return the GPU of this UUID; None for no UUID, and for one that is not here."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)
