"""Run uv for one environment, and turn its failures into errors with a next step."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping

import uv

from advisor.domain.machine import Interpreter
from advisor.domain.workflow import Environment
from advisor.errors import EnvironmentNotUsableError
from advisor.probing.environments import registry

#: Messages of uv and of the operating system about a full disk.
DISK_FULL = ("No space left on device", "os error 28", "Disk quota exceeded")
DISK_FULL_ERRNOS = {errno.ENOSPC, errno.EDQUOT}
#: Part of the message of uv about a file with another hash than the lock has.
HASH_MISMATCH = "Hash mismatch"
#: Beginnings of lines of uv that do not help the user: one for each package, and its directories.
IGNORED_LINES = (" + ", " - ", " ~ ", "Activate with", "Using ", "Creating virtual environment")
MEBIBYTE = 2**20
MAX_REASON_CHARS = 600


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


@dataclasses.dataclass(frozen=True)
class UvRunner:
    """Runs uv for one environment."""

    name: str
    environment: Environment
    settings: BuildSettings
    #: Environment variables of uv.
    variables: Mapping[str, str]
    #: Descriptor of the environment's lock, which uv inherits.
    lock_fd: int

    def run(self, arguments: list[str]) -> None:
        """Run uv, report its output, and raise `EnvironmentNotUsableError` if it fails."""
        output: list[str] = []
        with subprocess.Popen(  # noqa: S603 - an argument list, no shell
            [self._find_uv(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(self.variables),
            # uv reads the configuration of the project in its working directory, so it does not
            # run in the user's. It does read the configuration of the user.
            cwd=self.settings.root,
            pass_fds=(self.lock_fd,),
            start_new_session=True,
            text=True,
            errors="replace",
        ) as process:
            try:
                for line in process.stderr or ():
                    if line.strip() and not line.startswith(IGNORED_LINES):
                        output.append(line.rstrip())
                        self.settings.report(f"{self.name}: {line.strip()}")
                status = process.wait()
            finally:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
        if status:
            raise self._explain_failure("\n".join(output))

    def _find_uv(self) -> str:
        try:
            return str(uv.find_uv_bin())
        except FileNotFoundError as problem:
            name = self.name
            wanted = (*self.environment.requirements, *self.settings.added)
            requirements = " ".join(f"'{each}'" for each in wanted)
            by_hand = (
                f"python3 -m venv {name} && {name}/bin/pip install {requirements}, "
                f"then --python {name}/bin/python"
            )
            raise EnvironmentNotUsableError(
                "uv, which creates environments, is not installed",
                f"pip install uv; or by hand: {by_hand}",
            ) from problem

    def _explain_failure(self, output: str) -> EnvironmentNotUsableError:
        if any(message in output for message in DISK_FULL):
            return disk_full_error(self.name, self.environment, self.settings)
        reason = " ".join(output.split())[-MAX_REASON_CHARS:]
        if self.settings.offline:
            return self._explain_offline(reason)
        if "No interpreter found" in output or "No download found" in output:
            interpreter = self.settings.interpreter
            return EnvironmentNotUsableError(
                f"{self.name} needs Python {self.environment.python}, "
                f"and {interpreter.executable} is {interpreter.version}",
                "install such a Python, or name one with --python",
            )
        if "pytorch" in output and "--torch-backend" not in output and _is_network_error(output):
            return EnvironmentNotUsableError(
                f"{self.name} cannot be created: the index with the builds of torch is unreachable",
                "set UV_FIND_LINKS to a folder with a wheel of torch, or set UV_TORCH_BACKEND, "
                "or repair the network",
            )
        if HASH_MISMATCH in output:
            return EnvironmentNotUsableError(
                f"{self.name} cannot be created: a package is not the file that the lock names;"
                f" uv reports: {reason}",
                "if you trust the source, such as an index with builds of your own, set "
                "UV_NO_VERIFY_HASHES=1",
            )
        return EnvironmentNotUsableError(
            f"{self.name} cannot be created; uv reports: {reason}",
            "fix the reported problem and repeat: downloads are kept",
        )

    def _explain_offline(self, reason: str) -> EnvironmentNotUsableError:
        lock = registry.lock_file(self.settings.rubric, self.name)
        missing = find_uncached_pins(lock, self.variables, self.settings.root)
        cause = f"uv's cache has no {', '.join(missing)}" if missing else reason
        return EnvironmentNotUsableError(
            f"{self.name} cannot be created offline: {cause}",
            "run it once without --offline, or name a folder with the wheels in UV_FIND_LINKS",
        )


def _is_network_error(output: str) -> bool:
    return "error sending request" in output


def explain_os_error(
    name: str, environment: Environment, settings: BuildSettings, problem: OSError
) -> EnvironmentNotUsableError:
    if problem.errno in DISK_FULL_ERRNOS:
        return disk_full_error(name, environment, settings)
    return EnvironmentNotUsableError(
        f"{name} cannot be created in {settings.root}: {problem.strerror}",
        "name a directory that can be written with P3_ADVISOR_HOME",
    )


def disk_full_error(
    name: str, environment: Environment, settings: BuildSettings
) -> EnvironmentNotUsableError:
    root, footprint = settings.root, environment.footprint
    free = shutil.disk_usage(root).free // MEBIBYTE if root.is_dir() else 0
    needs = f"; it takes about {footprint.disk_mib} MiB" if footprint else ""
    return EnvironmentNotUsableError(
        f"{name} cannot be created: the disk is full ({root} has {free} MiB free{needs}); "
        "nothing of it was left behind",
        "free some space, or choose other folders: P3_ADVISOR_HOME for environments, "
        "UV_CACHE_DIR for downloads",
    )


def find_uncached_pins(
    lock: pathlib.Path, variables: Mapping[str, str], root: pathlib.Path
) -> list[str]:
    """Return the pins of a lock file that uv cannot install without a network."""
    lines = registry.read_pins(lock).splitlines()
    pins = [line for line in lines if line and not line.startswith(("#", " "))]
    dry_run = [
        *(uv.find_uv_bin(), "pip", "install"),
        *("--offline", "--no-deps", "--dry-run"),
        *("--target", str(root / ".nowhere")),
    ]
    return [
        pin
        for pin in pins
        if subprocess.run(  # noqa: S603 - an argument list, no shell
            [*dry_run, pin], capture_output=True, env=dict(variables), cwd=root, check=False
        ).returncode
    ]
