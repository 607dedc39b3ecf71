"""Run uv for one environment, and turn its failures into errors with a next step."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Mapping

import uv

from advisor.domain.machine import Interpreter
from advisor.errors import EnvironmentNotUsableError
from advisor.probing.environments import sources

#: Beginnings of lines of uv that do not help the user: one for each package, and its directories.
IGNORED_LINES = (" + ", " - ", " ~ ", "Activate with", "Using ", "Creating virtual environment")
MAX_REASON_CHARS = 600
FREE_SPACE = (
    "free some space, or choose other folders: P3_ADVISOR_HOME for environments, UV_CACHE_DIR for "
    "downloads"
)
#: What to do about a failure, by a part of the message of uv; the first that it has counts.
NEXT_STEPS = {
    "No space left on device": FREE_SPACE,
    "Disk quota exceeded": FREE_SPACE,
    "[Errno": "name a directory that can be written with P3_ADVISOR_HOME",
    "No interpreter found": "install such a Python, or name one with --python",
    "Hash mismatch": "if you trust the source, such as an index with builds of your own, set "
    "UV_NO_VERIFY_HASHES=1",
    "download.pytorch.org": "repair the network; or set UV_FIND_LINKS to a folder with a wheel of "
    "torch, or UV_TORCH_BACKEND",
}
OFFLINE = "run it once without --offline, or name a folder with the wheels in UV_FIND_LINKS"


@dataclasses.dataclass(frozen=True)
class BuildSettings:
    """The settings with which environments are created."""

    #: Folder of all environments.
    root: pathlib.Path
    rubric: pathlib.Path
    #: Environment variables of the user.
    inherited: Mapping[str, str]
    #: Interpreter for environments that allow its version.
    interpreter: Interpreter
    #: Called with each line of progress.
    report: Callable[[str], None]
    #: The indexes and other package sources that pip is configured with.
    pip_settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    offline: bool = False
    #: Requirements that the user adds, for the modules that a model imports.
    added: tuple[str, ...] = ()

    @property
    def uv_variables(self) -> dict[str, str]:
        return sources.uv_environment(self.inherited, self.pip_settings)


def run_uv(name: str, arguments: list[str], settings: BuildSettings, lock_fd: int) -> None:
    """Run uv for an environment, report its output, and raise an error if it fails.

    It inherits the descriptor of the environment's lock.
    """
    output: list[str] = []
    offline = ["--offline"] if settings.offline else []
    with subprocess.Popen(  # noqa: S603 - an argument list, no shell
        [uv.find_uv_bin(), *arguments, *offline],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=settings.uv_variables,
        # uv reads the configuration of the project in its working directory, so it does not run in
        # the user's. It does read the configuration of the user.
        cwd=settings.root,
        pass_fds=(lock_fd,),
        start_new_session=True,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stderr or ():
                if line.strip() and not line.startswith(IGNORED_LINES):
                    output.append(line.rstrip())
                    settings.report(f"{name}: {line.strip()}")
            status = process.wait()
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    if status:
        raise creation_error(name, " ".join(" ".join(output).split()), offline=settings.offline)


def creation_error(name: str, message: str, *, offline: bool = False) -> EnvironmentNotUsableError:
    """Return the error for an environment about which uv or the system said this."""
    known = next((step for part, step in NEXT_STEPS.items() if part in message), None)
    other = OFFLINE if offline else "repair what is reported and repeat: downloads are kept"
    return EnvironmentNotUsableError(
        f"{name} cannot be created: {message[-MAX_REASON_CHARS:]}", known or other
    )
