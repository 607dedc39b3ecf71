"""Where the environments of our making lie, what identifies one, and which are there.

<home>/environments/<name>-<digest>/               made, checked, and put there by one rename
                   /<name>-<digest>/made.json      what it was made from and what is in it
                   /.making-<name>/                being made; whatever lies there counts for nothing
                   /<name>.lock                    held by whoever makes or removes it
"""

from __future__ import annotations

import hashlib
import pathlib
import platform
from collections.abc import Iterable, Mapping

import msgspec
import platformdirs

from advisor.domain.machine import MadeEnvironment
from advisor.domain.workflow import Environment, Workflow
from advisor.errors import UnknownEnvironmentError

HOME_VARIABLE = "P3_ADVISOR_HOME"
RECORD = "made.json"
#: Characters of the digest that name a directory.
DIGEST_LENGTH = 12
GONE = "its interpreter is gone"
OUTDATED = "it was made from an earlier lock"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about an environment since it was made."""

    name: str
    digest: str
    python_version: str
    #: Versions by distribution.
    packages: dict[str, str]
    disk_bytes: int
    seconds: float
    made: str


def default_root(environment: Mapping[str, str]) -> pathlib.Path:
    """Return where environments are made: beside the runs where the user has named their home, else the platform's place for data."""
    home = environment.get(HOME_VARIABLE)
    return (
        pathlib.Path(home).absolute() if home else platformdirs.user_data_path("p3-advisor")
    ) / "environments"


def own_environments(workflows: Iterable[Workflow]) -> dict[str, Environment]:
    """Return the environments that are made for workflows, by name."""
    return {
        environment.name or workflow.id: environment
        for workflow in workflows
        for environment in workflow.environments
        if environment.kind == "own"
    }


def choose(workflows: tuple[Workflow, ...], names: Iterable[str]) -> dict[str, Environment]:
    """Return the environments that these workflows or environments name; raise `UnknownEnvironmentError` for any other name."""
    known = own_environments(workflows)
    chosen = {}
    for name in names:
        entry = next((workflow for workflow in workflows if workflow.id == name), None)
        image = next(
            (held.image for each in workflows for held in each.containers if held.name == name),
            None,
        )
        if image:
            raise UnknownEnvironmentError(
                f"{name} is a container, which p3-advisor does not fetch", f"docker pull {image}"
            )
        if entry is not None and entry.environment.kind == "own":
            name = entry.environment.name or entry.id  # noqa: PLW2901 - the workflow's name stands for its environment's
        elif entry is not None and name not in known:
            what = f"{name} has no environment of its own: it runs in the interpreter of --python, or in a container"
            raise UnknownEnvironmentError(what, entry.how_to_get)
        if name not in known:
            raise UnknownEnvironmentError(
                f"there is no environment {name!r}", f"choose among {', '.join(sorted(known))}"
            )
        chosen[name] = known[name]
    return chosen


def find_others(workflows: Iterable[Workflow], name: str) -> dict[str, str]:
    """Return, by device, the environments that workflows have in place of this one there."""
    used = [
        workflow for workflow in workflows if (workflow.environment.name or workflow.id) == name
    ]
    return {
        device: other.name for workflow in used for device, other in workflow.environment_on.items()
    }


def lock_file(rubric: pathlib.Path, name: str) -> pathlib.Path:
    """Return where the lock of an environment ships for this platform."""
    return rubric / "locks" / f"{platform.system().lower()}-{platform.machine()}" / f"{name}.txt"


def digest_of(environment: Environment, lock: pathlib.Path) -> str:
    """Return what identifies an environment: its lock and what it is asked to hold."""
    content = lock.read_bytes() if lock.is_file() else b""
    asked = "\n".join(
        (*environment.requirements, environment.python, environment.torch, *environment.leaves_out)
    ).encode()
    return hashlib.sha256(content + asked).hexdigest()[:DIGEST_LENGTH]


def directory_of(root: pathlib.Path, name: str, digest: str) -> pathlib.Path:
    """Return where an environment lies once it is made."""
    return root / f"{name}-{digest}"


def python_in(directory: pathlib.Path) -> pathlib.Path:
    """Return the interpreter of an environment."""
    return directory / "bin" / "python"


def read_record(directory: pathlib.Path) -> Record | None:
    """Return what is known about the environment in `directory`; None where none was finished."""
    try:
        return msgspec.json.decode((directory / RECORD).read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None


def versions_of(root: pathlib.Path, name: str) -> list[pathlib.Path]:
    """Return the directories that hold this environment, made from whichever lock."""
    pattern = f"{name}-{'[0-9a-f]' * DIGEST_LENGTH}"
    return sorted(directory for directory in root.glob(pattern) if directory.is_dir())


def find_made(
    root: pathlib.Path, workflows: Iterable[Workflow], rubric: pathlib.Path
) -> dict[str, MadeEnvironment]:
    """Return the environments that are there, by name, each with what keeps it from being used; starts no process."""
    found = {}
    for name, environment in own_environments(workflows).items():
        directories = {directory: read_record(directory) for directory in versions_of(root, name)}
        whole = {
            directory: record for directory, record in directories.items() if record is not None
        }
        if not whole:
            continue
        wanted = directory_of(root, name, digest_of(environment, lock_file(rubric, name)))
        directory = wanted if wanted in whole else next(iter(whole))
        python = python_in(directory)
        # `exists` follows the link to the interpreter that it was made with.
        fault = OUTDATED if directory != wanted else None if python.exists() else GONE
        found[name] = MadeEnvironment(
            name=name, python=str(python), digest=whole[directory].digest, fault=fault
        )
    return found
