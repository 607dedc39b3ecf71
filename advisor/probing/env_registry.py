"""Name, locate and read the environments that p3-advisor creates.

<home>/environments/<name>-<digest>/            an environment; complete, because it was renamed
                   /<name>-<digest>/made.json   its origin and its packages
                   /.making-<name>/             an environment in creation; ignored by readers
                   /<name>.lock                 locked while the environment is created or removed
"""

from __future__ import annotations

import hashlib
import pathlib
import platform
import re
from collections.abc import Iterable, Mapping

import msgspec
import platformdirs

from advisor.domain.errors import UnknownEnvironmentError, choose_among
from advisor.domain.machine import CreatedEnvironment
from advisor.domain.workflow import Environment, Workflow
from advisor.store.files import named_home

RECORD_FILE = "made.json"
#: Characters of the digest in the name of a directory.
DIGEST_LENGTH = 12
#: The hash of a file of the pinned package; each follows the pin in a line of its own.
HASH = re.compile(r" \\\n    --hash=\S+")
INTERPRETER_MISSING = "its interpreter is missing"
STALE_LOCK = "it was created from an earlier lock file"


class CreationRecord(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    #: Versions by distribution.
    packages: dict[str, str]
    #: What its creation took, as `footprint` of `rubric/workflows.toml` states it.
    disk_bytes: int
    seconds: float
    #: Requirements that the user has added.
    added: tuple[str, ...] = ()


def default_root(environment: Mapping[str, str]) -> pathlib.Path:
    """Return a folder in `P3_ADVISOR_HOME` if that is set, else in the folder of user data."""
    base = named_home(environment) or platformdirs.user_data_path("p3-advisor")
    return base / "environments"


def own_environments(workflows: Iterable[Workflow]) -> dict[str, Environment]:
    return {
        environment.name or workflow.id: environment
        for workflow in workflows
        for environment in workflow.environments
        if environment.kind == "own"
    }


def select(workflows: tuple[Workflow, ...], names: Iterable[str]) -> dict[str, Environment]:
    """Take names of environments or workflows; raise `UnknownEnvironmentError` for another."""
    known = own_environments(workflows)
    resolved = [_resolve(name, workflows, known) for name in names]
    return {name: known[name] for name in resolved}


def _resolve(name: str, workflows: tuple[Workflow, ...], known: Mapping[str, Environment]) -> str:
    workflow = next((workflow for workflow in workflows if workflow.id == name), None)
    if workflow is not None and workflow.environment.kind == "own":
        return workflow.environment_name
    if name in known:
        return name
    if workflow is not None:
        raise UnknownEnvironmentError(
            f"{name} has no environment of its own: it runs in the interpreter of --python",
            workflow.how_to_get,
        )
    raise UnknownEnvironmentError(
        f"there is no environment {name!r}", choose_among(name, sorted(known))
    )


def device_alternatives(workflows: Iterable[Workflow], name: str) -> dict[str, str]:
    """Return the environments that replace this one on some devices, by device."""
    return {
        device: other.name
        for workflow in workflows
        if workflow.environment_name == name
        for device, other in workflow.environment_on.items()
    }


def lock_file(catalogue_directory: pathlib.Path, name: str) -> pathlib.Path:
    system = f"{platform.system().lower()}-{platform.machine()}"
    return catalogue_directory / "locks" / system / f"{name}.txt"


def read_pins(lock: pathlib.Path) -> str:
    """Return the lines of a lock file without the hashes; empty without the file."""
    return HASH.sub("", lock.read_text(encoding="utf-8")) if lock.is_file() else ""


def environment_digest(environment: Environment, lock: pathlib.Path) -> str:
    requirements = (
        *environment.requirements,
        environment.python,
        environment.torch,
        *environment.excluded_packages,
    )
    text = read_pins(lock) + "\n".join(requirements)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def environment_directory(root: pathlib.Path, name: str, digest: str) -> pathlib.Path:
    return root / f"{name}-{digest}"


def staging_directory(root: pathlib.Path, name: str) -> pathlib.Path:
    return root / f".making-{name}"


def interpreter_path(directory: pathlib.Path) -> pathlib.Path:
    return directory / "bin" / "python"


def read_record(directory: pathlib.Path) -> CreationRecord | None:
    """Return the record of an environment; None if its creation was not completed."""
    try:
        return msgspec.json.decode((directory / RECORD_FILE).read_bytes(), type=CreationRecord)
    except (OSError, msgspec.MsgspecError):
        return None


def find_versions(root: pathlib.Path, name: str) -> list[pathlib.Path]:
    pattern = f"{name}-{'[0-9a-f]' * DIGEST_LENGTH}"
    return sorted(directory for directory in root.glob(pattern) if directory.is_dir())


def find_created(
    root: pathlib.Path, workflows: Iterable[Workflow], catalogue_directory: pathlib.Path
) -> dict[str, CreatedEnvironment]:
    """Return the created environments; a fault is an old lock file or a missing interpreter."""
    found = {}
    for name, environment in own_environments(workflows).items():
        complete = {
            directory: record
            for directory in find_versions(root, name)
            if (record := read_record(directory)) is not None
        }
        if not complete:
            continue
        digest = environment_digest(environment, lock_file(catalogue_directory, name))
        current = environment_directory(root, name, digest)
        directory = current if current in complete else next(iter(complete))
        python = interpreter_path(directory)
        fault = None
        if directory != current:
            fault = STALE_LOCK
        # `exists` follows the link to the interpreter that the environment was created with.
        elif not python.exists():
            fault = INTERPRETER_MISSING
        found[name] = CreatedEnvironment(
            name=name, python=str(python), digest=complete[directory].digest, fault=fault
        )
    return found
