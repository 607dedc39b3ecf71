"""Make and remove environments with uv: built beside, checked, then renamed, so that there is never half of one.

Whoever makes one holds its lock, and so does uv, which inherits it: when we are killed, the next
one waits until uv has gone too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import errno
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping

import msgspec
import psutil
import uv
from packaging.specifiers import SpecifierSet

from advisor.domain.machine import Interpreter
from advisor.domain.workflow import Environment
from advisor.errors import EnvironmentInUseError, EnvironmentNotMadeError
from advisor.probing.environments import health, places, sources

#: What uv and the system say when a disk is full.
DISK_FULL = ("No space left on device", "os error 28", "Disk quota exceeded")
#: Lines of uv that say nothing to the user: one for each package, and where it works.
LISTING = (" + ", " - ", " ~ ", "Activate with", "Using ", "Creating virtual environment")
MEBIBYTE = 2**20
LONGEST_REASON = 600

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class BuildSettings:
    """What making environments takes from outside."""

    root: pathlib.Path
    rubric: pathlib.Path
    #: The user's variables.
    inherited: Mapping[str, str]
    #: The interpreter to make them with where its version fits.
    interpreter: Interpreter
    say: Say
    #: What pip is told of where packages come from.
    pip_settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    offline: bool = False


def create(name: str, environment: Environment, shop: BuildSettings) -> pathlib.Path:
    """Return the environment's directory, making it unless it is there and works; raise `EnvironmentNotMadeError` if that fails."""
    lock = places.lock_file(shop.rubric, name)
    directory = places.directory_of(shop.root, name, places.digest_of(environment, lock))
    try:
        shop.root.mkdir(parents=True, exist_ok=True)
        with _held(shop.root, name, shop.say) as held:
            if places.read_record(directory) is not None:
                fault = health.check(directory, environment, shop.inherited).fault
                if fault is None:
                    shop.say(f"{name}: already made, and it works: {directory}")
                    return directory
                shop.say(f"{name}: made anew, because {fault}")
            making = shop.root / f".making-{name}"
            shutil.rmtree(making, ignore_errors=True)
            try:
                _make(name, environment, making, lock, shop, held)
                _put_in_place(making, directory)
            finally:
                shutil.rmtree(making, ignore_errors=True)
            for earlier in places.versions_of(shop.root, name):
                if earlier != directory and not is_used(earlier):
                    shutil.rmtree(earlier, ignore_errors=True)
    except OSError as problem:
        raise _explain_system(name, environment, shop, problem) from problem
    shop.say(f"{name}: made, {directory}")
    return directory


def remove(name: str, root: pathlib.Path, say: Say) -> bool:
    """Remove the environment, whichever lock it was made from; say whether there was one.

    Raise `EnvironmentInUseError` while one runs.
    """
    with _held(root, name, say) if root.is_dir() else contextlib.nullcontext():
        directories = [*places.versions_of(root, name), *root.glob(f".making-{name}")]
        for directory in directories:
            if is_used(directory):
                raise EnvironmentInUseError(
                    f"a process runs in {directory}", "let the run end, or stop it"
                )
            # The record first: what is left if this is interrupted counts for nothing.
            (directory / places.RECORD).unlink(missing_ok=True)
            shutil.rmtree(directory)
    return bool(directories)


def is_used(directory: pathlib.Path) -> bool:
    """Say whether some process was started from this environment."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if command and pathlib.Path(command[0]).is_relative_to(directory):
                return True
    return False


@contextlib.contextmanager
def _held(root: pathlib.Path, name: str, say: Say) -> Iterator[int]:
    """Hold the environment's lock; wait for whoever holds it now."""
    with (root / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: another process is making it; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _make(
    name: str,
    environment: Environment,
    making: pathlib.Path,
    lock: pathlib.Path,
    shop: BuildSettings,
    held: int,
) -> None:
    """Fill `making` and check it."""
    begun = time.monotonic()
    variables = sources.uv_environment(shop.inherited, shop.pip_settings)
    fits = SpecifierSet(environment.python).contains(shop.interpreter.version, prereleases=True)
    python = shop.interpreter.executable if fits else environment.python
    shop.say(f"{name}: making it with {python if fits else f'a Python {python}'}")
    offline = ["--offline"] if shop.offline else []
    _uv(
        ["venv", "--no-project", "--relocatable", "--python", python, *offline, str(making)],
        name,
        environment,
        variables,
        shop,
        held,
    )
    constraint = ["--constraint", str(lock)] if lock.is_file() else []
    backend = sources.torch_backend(environment.torch, variables)
    with sources.excludes(environment.leaves_out) as excludes:
        options = [*constraint, *excludes, *backend, *offline]
        install = [
            "pip",
            "install",
            "--python",
            str(places.python_in(making)),
            *options,
            *environment.requirements,
        ]
        _uv(install, name, environment, variables, shop, held)
    shop.say(f"{name}: checking that it imports {', '.join(environment.imports)}")
    found = health.look(making, environment, shop.inherited, keep_bytecode=True)
    if found.fault is not None:
        raise EnvironmentNotMadeError(
            f"{name} was installed, but {found.fault}",
            "see p3-advisor doctor, or report it with this message",
        )
    record = places.Record(
        name=name,
        digest=places.digest_of(environment, lock),
        python_version=found.python_version,
        packages=found.packages,
        disk_bytes=disk_bytes(making),
        seconds=time.monotonic() - begun,
        made=dt.datetime.now().astimezone().isoformat(timespec="seconds"),
    )
    (making / places.RECORD).write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1))


def _put_in_place(making: pathlib.Path, directory: pathlib.Path) -> None:
    """Rename what was made to its name; what stood there and does not work goes first."""
    if directory.exists():
        if is_used(directory):
            raise EnvironmentInUseError(
                f"a process runs in {directory}", "let the run end, or stop it"
            )
        (directory / places.RECORD).unlink(missing_ok=True)
        shutil.rmtree(directory)
    making.rename(directory)


def disk_bytes(directory: pathlib.Path) -> int:
    """Return the bytes of the files below `directory`, those shared with uv's cache too."""
    return sum(file.lstat().st_blocks * 512 for file in directory.rglob("*"))


def _uv(
    arguments: list[str],
    name: str,
    environment: Environment,
    variables: Mapping[str, str],
    shop: BuildSettings,
    held: int,
) -> None:
    """Run uv, pass on what it says, and raise `EnvironmentNotMadeError` with its reason when it fails."""
    said: list[str] = []
    with subprocess.Popen(  # noqa: S603 - an argument list, no shell
        [_find_uv(name, environment), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=dict(variables),
        # A configuration of the user's projects has no say here; the one of the user has.
        cwd=shop.root,
        pass_fds=(held,),
        start_new_session=True,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stderr or ():
                if line.strip() and not line.startswith(LISTING):
                    said.append(line.rstrip())
                    shop.say(f"{name}: {line.strip()}")
            status = process.wait()
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    if status:
        raise _explain(name, environment, shop, "\n".join(said), variables)


def _find_uv(name: str, environment: Environment) -> str:
    try:
        return str(uv.find_uv_bin())
    except FileNotFoundError as problem:
        wanted = " ".join(f"'{requirement}'" for requirement in environment.requirements)
        by_hand = f"python3 -m venv {name} && {name}/bin/pip install {wanted}, then --python {name}/bin/python"
        raise EnvironmentNotMadeError(
            "uv, which makes environments, is not installed",
            f"pip install uv; or by hand: {by_hand}",
        ) from problem


def _explain(
    name: str,
    environment: Environment,
    shop: BuildSettings,
    said: str,
    variables: Mapping[str, str],
) -> EnvironmentNotMadeError:
    """Turn what uv said when it failed into what to do."""
    if any(words in said for words in DISK_FULL):
        return _disk_is_full(name, environment, shop)
    reason = " ".join(said.split())[-LONGEST_REASON:]
    if shop.offline:
        missing = find_missing(places.lock_file(shop.rubric, name), variables, shop.root)
        what = (
            f"{name} cannot be made offline: uv's cache lacks {', '.join(missing)}"
            if missing
            else f"{name} cannot be made offline: {reason}"
        )
        return EnvironmentNotMadeError(
            what, "run it once without --offline, or name a folder with the wheels in UV_FIND_LINKS"
        )
    if "No interpreter found" in said or "No download found" in said:
        what = f"{name} needs Python {environment.python}, and {shop.interpreter.executable} is {shop.interpreter.version}"
        return EnvironmentNotMadeError(what, "install one of these, or name one with --python")
    if "pytorch" in said and "--torch-backend" not in said and "error sending request" in said:
        step = "set UV_FIND_LINKS to a folder with a wheel of torch, or UV_TORCH_BACKEND, or mend the network"
        return EnvironmentNotMadeError(
            f"{name} cannot be made: the index with the builds of torch is out of reach", step
        )
    return EnvironmentNotMadeError(
        f"{name} cannot be made; uv says: {reason}",
        "mend what it says and repeat: what was downloaded is kept",
    )


def _explain_system(
    name: str, environment: Environment, shop: BuildSettings, problem: OSError
) -> EnvironmentNotMadeError:
    if problem.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _disk_is_full(name, environment, shop)
    step = "name a directory that can be written with P3_ADVISOR_HOME"
    return EnvironmentNotMadeError(
        f"{name} cannot be made in {shop.root}: {problem.strerror}", step
    )


def _disk_is_full(
    name: str, environment: Environment, shop: BuildSettings
) -> EnvironmentNotMadeError:
    free = shutil.disk_usage(shop.root).free // MEBIBYTE if shop.root.is_dir() else 0
    needs = f"; it takes about {environment.seen.disk_mib} MiB" if environment.seen else ""
    what = f"{name} cannot be made: the disk is full ({shop.root} has {free} MiB free{needs}); nothing of it was left behind"
    step = "free some space, or name other places: P3_ADVISOR_HOME for environments, UV_CACHE_DIR for downloads"
    return EnvironmentNotMadeError(what, step)


def find_missing(lock: pathlib.Path, variables: Mapping[str, str], root: pathlib.Path) -> list[str]:
    """Return the pins of a lock that uv could not install without a network."""
    pins = (
        [
            line
            for line in lock.read_text(encoding="utf-8").splitlines()
            if line and not line.startswith(("#", " "))
        ]
        if lock.is_file()
        else []
    )
    missing = []
    for pin in pins:
        command = [
            uv.find_uv_bin(),
            "pip",
            "install",
            "--offline",
            "--no-deps",
            "--dry-run",
            "--target",
            str(root / ".nowhere"),
            pin,
        ]
        answer = subprocess.run(  # noqa: S603
            command, capture_output=True, env=dict(variables), cwd=root, check=False
        )
        if answer.returncode:
            missing.append(pin)
    return missing
