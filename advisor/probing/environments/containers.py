"""Build the docker or podman command that starts a worker's Python in an image.

A worker has the device, reads the advisor's code and the model, writes to the folders of its run,
and has no network. No image is pulled: they take many gigabytes, so the user fetches them.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence

from advisor.probing.environments.variables import OFFLINE_VARIABLES, WORKER_VARIABLES
from probes import protocol

#: In order of preference.
ENGINES = ("docker", "podman")
INSPECT_SECONDS = 30
#: The engine selects the device itself, so a container does not need these.
DEVICE_VARIABLES = {"CUDA_VISIBLE_DEVICES"}
#: Variables that a container gets from the environment of the engine: all that a worker gets. The
#: variables that a worker inherits from the user concern the host only.
PASSED_VARIABLES = tuple(
    name
    for name in (*WORKER_VARIABLES, *OFFLINE_VARIABLES, protocol.MARK_VARIABLE)
    if name not in DEVICE_VARIABLES
)
ISOLATION_OPTIONS = (
    *("--network", "none"),
    *("--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges"),
    *("--ipc", "private"),
    *("--shm-size", "1g"),
)

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def find_container_engine(environment: Mapping[str, str]) -> str | None:
    """Return the path of docker or podman; None where neither is installed."""
    found = (shutil.which(engine, path=environment.get("PATH")) for engine in ENGINES)
    return next((engine for engine in found if engine), None)


def find_local_images(
    engine: str, images: Iterable[str], *, run: Run = subprocess.run
) -> tuple[str, ...]:
    """Return those of `images` that have been pulled."""
    found: list[str] = []
    for image in images:
        try:
            inspection = run(
                [engine, "image", "inspect", image],
                capture_output=True,
                timeout=INSPECT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return tuple(found)
        found += [image] if inspection.returncode == 0 else []
    return tuple(found)


def python_command(
    engine: str,
    image: str,
    *,
    gpu: str | None,
    code: pathlib.Path,
    writable: Sequence[pathlib.Path],
    readable: Sequence[pathlib.Path] = (),
    user: tuple[int, int] | None = None,
) -> list[str]:
    """Return the command that starts the image's Python; a script and its arguments follow it.

    Standard input and output are passed through, because they carry the worker's tokens and
    notifications. All paths are the same inside and outside.
    """
    is_podman = pathlib.Path(engine).name == "podman"
    uid, gid = user or (os.getuid(), os.getgid())
    command = [engine, "run", "--rm", "--init", "--interactive", *ISOLATION_OPTIONS]
    command += ["--userns", "keep-id"] if is_podman else []
    command += ["--user", f"{uid}:{gid}"]
    if gpu:
        command += (
            ["--device", f"nvidia.com/gpu={gpu}"] if is_podman else ["--gpus", f"device={gpu}"]
        )
    for path in (code, *readable):
        command += ["--mount", _mount(path, readonly=True)]
    for path in writable:
        command += ["--mount", _mount(path, readonly=False)]
    for name in PASSED_VARIABLES:
        command += ["--env", name]
    # The image has no home for this user. Caches without a variable of their own go to the run.
    command += ["--env", f"HOME={writable[0]}", "--workdir", str(writable[0])]
    return [*command, "--entrypoint", "python3", image]


def _mount(path: pathlib.Path, *, readonly: bool) -> str:
    """Return one mount; the engines parse it as CSV, so commas and quotes are escaped."""
    fields = ["type=bind", f"source={path}", f"target={path}", *(["readonly"] if readonly else [])]
    return ",".join(
        '"' + field.replace('"', '""') + '"' if set(field) & set(',"') else field
        for field in fields
    )
