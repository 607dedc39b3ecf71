"""Which interpreter runs a worker, and the environment variables it gets; nothing of the advisor's own process is changed."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from advisor.domain.machine import Machine
from advisor.domain.question import Question

#: Caches of compilers and drivers; each worker gets its own, so that a cold build is cold and says
#: nothing about an earlier run.
CACHES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
    "JAX_COMPILATION_CACHE_DIR": "jax",
    "VLLM_CACHE_ROOT": "vllm",
    "MODULAR_CACHE_DIR": "modular",
}
#: All arms on the processor get the same number of threads, whichever library they compute with.
THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NPROC",
    "TVM_NUM_THREADS",
)
#: JAX would take three quarters of the GPU's memory at its first operation, which the arms beside
#: it then do not have.
ON_DEMAND = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
#: Stacks that would report their use somewhere.
NO_TELEMETRY = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "MAX_SERVE_DISABLE_TELEMETRY": "1",
    # OpenVINO has no switch of its own, but does not report from a build server, which this says it
    # is on.
    "TF_BUILD": "1",
}


#: What would lead an environment of our making to packages that are not its own.
FOREIGN = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
)


def without_foreign(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that lead to packages elsewhere."""
    return {name: value for name, value in inherited.items() if name not in FOREIGN}


def worker_environment(
    inherited: Mapping[str, str],
    question: Question,
    threads: int,
    scratch: pathlib.Path,
    *,
    made_for_it: bool = False,
) -> dict[str, str]:
    """Return the variables of one worker whose caches lie under `scratch`; an interpreter that the user named keeps its import path."""
    environment = {
        **(without_foreign(inherited) if made_for_it else inherited),
        **NO_TELEMETRY,
        **ON_DEMAND,
    }
    environment |= dict.fromkeys(THREAD_COUNTS, str(threads))
    environment |= {name: str(scratch / "cache" / folder) for name, folder in CACHES.items()}
    environment["CUDA_VISIBLE_DEVICES"] = question.gpu or ""
    # The interpreter is the user's: probing leaves no files in it.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment["TOKENIZERS_PARALLELISM"] = "false"
    if question.offline:
        environment["HF_HUB_OFFLINE"] = "1"
    return environment


def thread_count(machine: Machine) -> int:
    """Return the threads that each arm on the processor gets: its physical cores."""
    return machine.cpu.physical_cores
