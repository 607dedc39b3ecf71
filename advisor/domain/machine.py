"""What is here to measure on."""

from __future__ import annotations

import msgspec


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The processor as this process may use it."""

    model: str
    physical_cores: int
    #: Logical processors in this process's affinity mask.
    usable_processors: int
    memory_bytes: int


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One NVIDIA GPU, as its management library describes it."""

    index: int
    uuid: str
    name: str
    compute_capability: str
    memory_bytes: int
    free_memory_bytes: int
    driver: str
    cuda_driver: str


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
