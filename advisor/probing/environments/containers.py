"""The command line that starts Python in an image, for docker and podman: the device, our code to read, the run to write, no network.

Nothing is pulled: an image that is not there is the user's to fetch, since it takes many gigabytes.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence

#: In the order in which they are looked for.
ENGINES = ("docker", "podman")
INSPECT_SECONDS = 30
#: Variables of a worker that mean something inside an image; everything else is the host's
#: business.
PASSED = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NPROC",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "CUDA_CACHE_PATH",
    "JAX_COMPILATION_CACHE_DIR",
    "HF_HUB_DISABLE_TELEMETRY",
    "HF_HUB_OFFLINE",
    "DO_NOT_TRACK",
    "TOKENIZERS_PARALLELISM",
    "PYTHONDONTWRITEBYTECODE",
    "P3_ADVISOR_WORKER",
)

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def find_engine(environment: Mapping[str, str]) -> str | None:
    """Return the path of docker or podman; None where there is neither."""
    found = (shutil.which(engine, path=environment.get("PATH")) for engine in ENGINES)
    return next((engine for engine in found if engine), None)


def find_images(
    engine: str, images: Iterable[str], *, run: Run = subprocess.run
) -> tuple[str, ...]:
    """Return those of `images` that are here already."""
    here: list[str] = []
    for image in images:
        try:
            answer = run(
                [engine, "image", "inspect", image],
                capture_output=True,
                timeout=INSPECT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return tuple(here)
        here += [image] if answer.returncode == 0 else []
    return tuple(here)


def start_python(
    engine: str,
    image: str,
    *,
    gpu: str | None,
    code: pathlib.Path,
    writable: Sequence[pathlib.Path],
    readable: Sequence[pathlib.Path] = (),
    user: tuple[int, int] | None = None,
) -> list[str]:
    """Return the words that, before a script and its arguments, run them with the image's Python.

    Standard input and output are the worker's lifeline and doorbell, so they are passed through;
    all paths are the same inside and outside.
    """
    podman = pathlib.Path(engine).name == "podman"
    owner = user or (os.getuid(), os.getgid())
    words = [engine, "run", "--rm", "--init", "--interactive", "--network", "none"]
    words += [
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
        "--ipc",
        "private",
        "--shm-size",
        "1g",
    ]
    words += ["--userns", "keep-id"] if podman else []
    words += ["--user", f"{owner[0]}:{owner[1]}"]
    if gpu:
        words += ["--device", f"nvidia.com/gpu={gpu}"] if podman else ["--gpus", f"device={gpu}"]
    for place in (code, *readable):
        words += ["--mount", _mount(place, readonly=True)]
    for place in writable:
        words += ["--mount", _mount(place, readonly=False)]
    for name in PASSED:
        words += ["--env", name]
    # The home of an unknown user cannot be written; caches that have no variable of their own land
    # in the run.
    words += ["--env", f"HOME={writable[0]}", "--workdir", str(writable[0])]
    return [*words, "--entrypoint", "python3", image]


def _mount(place: pathlib.Path, *, readonly: bool) -> str:
    """Return one mount; a field with a comma or a quote in it is quoted as the engines' parser of CSV expects."""
    path = str(place)
    fields = ["type=bind", f"source={path}", f"target={path}", *(["readonly"] if readonly else [])]
    return ",".join(
        '"' + field.replace('"', '""') + '"' if set(field) & set(',"') else field
        for field in fields
    )
