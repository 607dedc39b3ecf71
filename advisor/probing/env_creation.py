"""Create, check and remove environments with uv.

An environment is built in a staging folder, checked, and renamed, so it is never half complete. It
works if its interpreter starts, its packages import, and no package has changed since its creation.
A file lock guards each environment. uv inherits the lock: when p3-advisor is killed, the next one
waits until uv has exited as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping

import msgspec
import psutil
from packaging.specifiers import SpecifierSet

from advisor.domain.errors import EnvironmentInUseError, EnvironmentNotUsableError
from advisor.domain.workflow import Environment
from advisor.probing import env_registry, uv_runner
from advisor.probing.env_variables import NO_TELEMETRY, without_python_paths
from advisor.probing.uv_runner import BuildSettings, creation_error, run_uv

#: Bytes in a block of `st_blocks`.
BLOCK_BYTES = 512
#: Run by the environment's interpreter in isolated mode. It prints its versions before it imports
#: anything, so that a crashing import differs from a broken interpreter.
CHECK_SCRIPT = """
import importlib, importlib.metadata as metadata, json, os, sys
answer = os.dup(1)
os.dup2(2, 1)
packages = {each.metadata["Name"]: each.version for each in metadata.distributions() if each.metadata["Name"]}
os.write(answer, json.dumps({"packages": packages}).encode())
os.close(answer)
for name in sys.argv[1:]:
    importlib.import_module(name)
"""  # noqa: E501 - a script, kept as one string
CHECK_SECONDS = 600
MAX_FAULT_CHARS = 300


def create(name: str, environment: Environment, settings: BuildSettings) -> pathlib.Path:
    """Return the environment's directory; create it unless it exists, works and has all packages.

    Packages that the user added to an earlier version are kept. Raise `EnvironmentNotUsableError`
    if the creation fails.
    """
    lock_file = env_registry.lock_file(settings.catalogue_directory, name)
    digest = env_registry.environment_digest(environment, lock_file)
    directory = env_registry.environment_directory(settings.root, name, digest)
    try:
        settings.root.mkdir(parents=True, exist_ok=True)
        with _locked(name, settings.root, settings.report) as lock_fd:
            versions = [directory, *env_registry.find_versions(settings.root, name)]
            records = (env_registry.read_record(version) for version in versions)
            existing = next((record.added for record in records if record is not None), ())
            added = tuple(dict.fromkeys([*existing, *settings.added]))
            settings = dataclasses.replace(settings, added=added)
            if _is_working(name, directory, environment, settings):
                return directory
            staging = env_registry.staging_directory(settings.root, name)
            shutil.rmtree(staging, ignore_errors=True)
            try:
                _build(name, environment, staging, settings, lock_fd)
                if directory.exists():
                    _delete(directory)
                staging.rename(directory)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
            for earlier in env_registry.find_versions(settings.root, name):
                if earlier != directory and not is_in_use(earlier):
                    shutil.rmtree(earlier, ignore_errors=True)
    except OSError as problem:
        raise creation_error(name, str(problem)) from problem
    settings.report(f"{name}: created, {directory}")
    return directory


def remove(name: str, root: pathlib.Path, report: Callable[[str], None]) -> bool:
    """Remove all versions of the environment; return whether there was one.

    Raise `EnvironmentInUseError` while a process runs in one.
    """
    with _locked(name, root, report) if root.is_dir() else contextlib.nullcontext():
        directories = env_registry.find_versions(root, name)
        staging = env_registry.staging_directory(root, name)
        directories += [staging] if staging.is_dir() else []
        for directory in directories:
            _delete(directory)
    return bool(directories)


def is_in_use(directory: pathlib.Path) -> bool:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if command and pathlib.Path(command[0]).is_relative_to(directory):
                return True
    return False


# `flock` is called directly because uv has to inherit the descriptor of the lock, which filelock
# keeps private.
@contextlib.contextmanager
def _locked(name: str, root: pathlib.Path, report: Callable[[str], None]) -> Iterator[int]:
    """Hold the environment's lock, after waiting for its holder; yield its file descriptor."""
    with (root / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"{name}: another process is creating it; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _is_working(
    name: str, directory: pathlib.Path, environment: Environment, settings: BuildSettings
) -> bool:
    record = env_registry.read_record(directory)
    if record is None:
        return False
    if added := set(settings.added) - set(record.added):
        settings.report(f"{name}: created again, to add {', '.join(sorted(added))}")
        return False
    fault = find_fault(directory, environment, settings.inherited)
    settings.report(
        f"{name}: already created, and it works: {directory}"
        if fault is None
        else f"{name}: created again, because {fault}"
    )
    return fault is None


def _build(
    name: str,
    environment: Environment,
    staging: pathlib.Path,
    settings: BuildSettings,
    lock_fd: int,
) -> None:
    started = time.monotonic()
    python, interpreter = environment.python, settings.interpreter
    fits = SpecifierSet(python).contains(interpreter.version, prereleases=True)
    settings.report(
        f"{name}: creating it with {interpreter.executable if fits else f'a Python {python}'}"
    )
    venv = ["venv", "--no-project", "--relocatable", str(staging)]
    base = interpreter.executable if fits else python
    run_uv(name, [*venv, "--python", base], settings, lock_fd)
    lock_file = env_registry.lock_file(settings.catalogue_directory, name)
    constraint = ["--constraint", str(lock_file)] if lock_file.is_file() else []
    backend = uv_runner.torch_backend(environment.torch, settings.uv_variables)
    with uv_runner.excludes(environment.excluded_packages) as excludes:
        target = ["--python", str(env_registry.interpreter_path(staging))]
        options = [*constraint, *excludes, *backend]
        requirements = [*environment.requirements, *settings.added]
        run_uv(name, ["pip", "install", *target, *options, *requirements], settings, lock_fd)
    settings.report(f"{name}: checking that it imports {', '.join(environment.imports)}")
    found = inspect(staging, environment, settings.inherited, keep_bytecode=True)
    if found.fault is not None:
        raise EnvironmentNotUsableError(
            f"{name} was installed, but {found.fault}",
            "see p3-advisor doctor, or report it with this message",
        )
    record = env_registry.CreationRecord(
        digest=env_registry.environment_digest(environment, lock_file),
        packages=found.packages,
        disk_bytes=disk_bytes(staging),
        seconds=time.monotonic() - started,
        added=settings.added,
    )
    text = msgspec.json.format(msgspec.json.encode(record), indent=1)
    (staging / env_registry.RECORD_FILE).write_bytes(text)


def _delete(directory: pathlib.Path) -> None:
    """Remove an environment; raise `EnvironmentInUseError` while a process runs in it."""
    if is_in_use(directory):
        raise EnvironmentInUseError(f"a process runs in {directory}", "let the run end, or stop it")
    # The record goes first: without it, the rest of an interrupted removal is no environment.
    (directory / env_registry.RECORD_FILE).unlink(missing_ok=True)
    shutil.rmtree(directory)


def disk_bytes(directory: pathlib.Path) -> int:
    """Return the disk use of the files below `directory`, hard links to uv's cache included."""
    return sum(file.lstat().st_blocks * BLOCK_BYTES for file in directory.rglob("*"))


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The versions in an environment, and the fault that makes it unusable."""

    #: Versions by distribution.
    packages: dict[str, str] = {}
    fault: str | None = None


def inspect(
    directory: pathlib.Path,
    environment: Environment,
    inherited: Mapping[str, str],
    *,
    keep_bytecode: bool = False,
) -> Inspection:
    """Start the interpreter in `directory` and import the environment's modules."""
    command = [
        str(env_registry.interpreter_path(directory)),
        "-I",
        *([] if keep_bytecode else ["-B"]),
        "-c",
        CHECK_SCRIPT,
        *environment.imports,
    ]
    try:
        result = subprocess.run(  # noqa: S603 - an argument list, no shell
            command,
            capture_output=True,
            timeout=CHECK_SECONDS,
            check=False,
            env={**without_python_paths(inherited), **NO_TELEMETRY},
            cwd=directory,
        )
    except subprocess.TimeoutExpired:
        return Inspection(fault=f"its imports take longer than {CHECK_SECONDS} seconds")
    except OSError as problem:
        return Inspection(fault=f"its interpreter does not start: {problem.strerror}")
    text = result.stderr.decode("utf-8", "replace")
    *_, last_line = ["no output", *filter(None, map(str.strip, text.splitlines()))]
    last_line = last_line[:MAX_FAULT_CHARS]
    try:
        inspection = msgspec.json.decode(result.stdout, type=Inspection)
    except msgspec.MsgspecError:
        return Inspection(fault=f"its interpreter does not run: {last_line}")
    if result.returncode:
        return msgspec.structs.replace(inspection, fault=f"it does not import: {last_line}")
    return inspection


def find_fault(
    directory: pathlib.Path, environment: Environment, inherited: Mapping[str, str]
) -> str | None:
    record = env_registry.read_record(directory)
    if record is None:
        return "its creation was not completed"
    inspection = inspect(directory, environment, inherited)
    if inspection.fault is None and inspection.packages != record.packages:
        changed = {*inspection.packages.items()} ^ {*record.packages.items()}
        names = ", ".join(sorted({name for name, _ in changed}))
        return f"packages were changed since its creation: {names}"[:MAX_FAULT_CHARS]
    return inspection.fault
