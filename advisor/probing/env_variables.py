"""Set the environment variables of workers.

The environment of the advisor's own process is never changed.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from advisor.domain.import_path import SAFE_PATH, without_current_directory
from advisor.domain.question import Question
from advisor.probing.bytecode import DIRECTORY_VARIABLE

#: Caches of compilers and drivers, each with its folder. Every arm has caches of its own, so that
#: its first build runs with cold caches.
CACHES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
    "JAX_COMPILATION_CACHE_DIR": "jax",
    "VLLM_CACHE_ROOT": "vllm",
    "MODULAR_CACHE_DIR": "modular",
}
#: Variables with the number of threads, so that all libraries use the same number.
THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NPROC",
    "TVM_NUM_THREADS",
)
NO_TELEMETRY = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "MAX_SERVE_DISABLE_TELEMETRY": "1",
    # OpenVINO has no switch of its own. It reports nothing from a build server, which this
    # variable marks.
    "TF_BUILD": "1",
}
#: Every variable that the advisor sets for a worker, with a format string of its value.
WORKER_VARIABLES = {
    **{name: f"{{scratch}}/cache/{folder}" for name, folder in CACHES.items()},
    **dict.fromkeys(THREAD_COUNTS, "{threads}"),
    # Without it JAX reserves three quarters of the GPU's memory, which other resident workers need.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    **NO_TELEMETRY,
    **SAFE_PATH,
    "CUDA_VISIBLE_DEVICES": "{gpu}",
    # The interpreter may be the user's; a worker writes no files into it.
    "PYTHONDONTWRITEBYTECODE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
#: Variables with the number of threads of a compiler, where a build has to share the processors.
COMPILE_THREADS = ("TORCHINDUCTOR_COMPILE_THREADS", "MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
OFFLINE_VARIABLES = {"HF_HUB_OFFLINE": "1"}
#: Variables that make Python import packages from outside an environment.
PYTHON_PATH_VARIABLES = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
)


def without_python_paths(inherited: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in inherited.items() if name not in PYTHON_PATH_VARIABLES}


def worker_environment(
    inherited: Mapping[str, str],
    question: Question,
    threads: int,
    scratch: pathlib.Path,
    *,
    temporary: pathlib.Path | None = None,
    own_environment: bool = False,
    compile_threads: int | None = None,
    bytecode: pathlib.Path | None = None,
) -> dict[str, str]:
    """Return the variables of one worker, whose caches are below `scratch`.

    Its temporary files are in `temporary`, because compilers keep caches there too: Inductor's
    precompiled headers are in no folder that a variable names. None keeps the inherited folder.
    A worker in an environment that p3-advisor created (`own_environment`) inherits no import paths;
    an interpreter that the user named keeps them. `compile_threads` limits the compilers of a build
    that runs next to others. `bytecode` is where the packages of the user's interpreter have it,
    if not beside their sources.
    """
    return {
        **without_current_directory(
            without_python_paths(inherited) if own_environment else inherited
        ),
        **{
            name: value.format(scratch=scratch, threads=threads, gpu=",".join(question.gpus))
            for name, value in WORKER_VARIABLES.items()
        },
        **({"TMPDIR": str(temporary)} if temporary else {}),
        **({DIRECTORY_VARIABLE: str(bytecode)} if bytecode and not own_environment else {}),
        **(dict.fromkeys(COMPILE_THREADS, str(compile_threads)) if compile_threads else {}),
        **(OFFLINE_VARIABLES if question.offline else {}),
    }
