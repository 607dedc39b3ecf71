"""Environments that uv creates from small wheels: complete or absent, whatever happens."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import builders
import pytest
import uv
from forks import run_command

from advisor.domain.errors import EnvironmentInUseError, EnvironmentNotUsableError
from advisor.domain.machine import Interpreter
from advisor.domain.workflow import Environment
from advisor.probing import env_creation, env_registry
from advisor.probing.uv_runner import BuildSettings

pytestmark = pytest.mark.slow

CREATE_SCRIPT = pathlib.Path(__file__).parents[2] / "fakes" / "make_environment.py"
INTERPRETER = Interpreter(
    executable=sys.executable, version=platform.python_version(), packages={}, torch_cuda=None
)
TINY = Environment(kind="own", name="tiny", requirements=("tiny-stack",), imports=("tiny_stack",))
MEBIBYTE = 2**20
#: A module whose import waits for a file, a minute at most, or is broken by environment variables.
MODULE = """
import os, time
end = time.monotonic() + 60
while not os.path.exists(os.environ.get("TINY_UNTIL", "/")) and time.monotonic() < end:
    time.sleep(0.01)
if os.environ.get("TINY_BREAKS"):
    raise ImportError(os.environ["TINY_BREAKS"])
"""


@dataclasses.dataclass(frozen=True)
class Place:
    """A folder of wheels, without an index, and a root of environments that uv creates from it."""

    folder: pathlib.Path

    @property
    def root(self) -> pathlib.Path:
        return self.folder / "root"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of uv, which has a cache of its own."""
        return {
            **os.environ,
            "UV_FIND_LINKS": str(self.folder / "wheels"),
            "UV_NO_INDEX": "1",
            "UV_CACHE_DIR": str(self.folder / "cache"),
        }

    def add_wheel(
        self,
        name: str = "tiny-stack",
        version: str = "1.0",
        padding_bytes: int = 0,
        requires: str = "",
    ) -> None:
        """Write a wheel with one module, `padding_bytes` of data and one requirement."""
        module = name.replace("-", "_")
        information = f"{module}-{version}.dist-info"
        requirement = f"Requires-Dist: {requires}\n" if requires else ""
        contents: dict[str, str | bytes] = {
            f"{module}.py": MODULE,
            f"{module}_data.bin": bytes(padding_bytes),
            f"{information}/METADATA": (
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirement}"
            ),
            f"{information}/WHEEL": (
                "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            ),
            f"{information}/RECORD": "",
        }
        file = self.folder / "wheels" / f"{module}-{version}-py3-none-any.whl"
        file.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(file, "w") as wheel:
            for place, content in contents.items():
                wheel.writestr(place, content)

    def write_lock(self, text: str) -> None:
        lock = env_registry.lock_file(self.folder / "catalogue", "tiny")
        lock.parent.mkdir(parents=True)
        lock.write_text(text)

    def create(
        self, environment: Environment = TINY, variables: Mapping[str, str] = {}, **changes: Any
    ) -> pathlib.Path:
        """Create the environment `tiny` in this process."""
        settings = BuildSettings(
            root=self.root,
            catalogue_directory=self.folder / "catalogue",
            interpreter=INTERPRETER,
            report=print,
            inherited={**self.variables, **variables},
            **changes,
        )
        return env_creation.create("tiny", environment, settings)

    def creation_error(
        self, environment: Environment = TINY, **changes: Any
    ) -> EnvironmentNotUsableError:
        with pytest.raises(EnvironmentNotUsableError) as problem:
            self.create(environment, **changes)
        assert self.versions() == []
        assert self.leftovers() == []
        return problem.value

    def start(self, **more: str) -> subprocess.Popen[str]:
        """Create it in another process."""
        return subprocess.Popen(
            [sys.executable, str(CREATE_SCRIPT), str(self.root)],
            env={**self.variables, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def versions(self) -> list[pathlib.Path]:
        return env_registry.find_versions(self.root, "tiny")

    def leftovers(self) -> list[str]:
        return [entry.name for entry in self.root.iterdir() if entry.name.startswith(".making")]


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    found = Place(tmp_path)
    found.add_wheel()
    return found


def record_of(directory: pathlib.Path) -> env_registry.CreationRecord:
    return builders.known(env_registry.read_record(directory))


def test_a_new_lock_file_replaces_the_environment(place: Place) -> None:
    place.add_wheel(version="2.0")
    newest = place.create()
    place.write_lock("# a comment\ntiny-stack==1.0\n")
    pinned = place.create()
    assert record_of(pinned).packages == {"tiny-stack": "1.0"}
    assert place.versions() == [pinned]
    assert newest != pinned


def with_hash(digest: str) -> str:
    return f"tiny-stack==1.0 \\\n    --hash=sha256:{digest}\n"


def test_a_file_with_another_hash_is_not_installed_unless_the_user_allows_it(place: Place) -> None:
    place.write_lock(with_hash("0" * 64))
    problem = place.creation_error()
    assert "tiny-stack==1.0" in problem.what
    assert "UV_NO_VERIFY_HASHES=1" in problem.next_step
    assert place.create(variables={"UV_NO_VERIFY_HASHES": "1"}).is_dir()


def test_an_excluded_package_is_not_installed(place: Place) -> None:
    place.add_wheel(requires="pictures>=1")
    assert "pictures" in place.creation_error().what
    without = builders.replace(TINY, excluded_packages=("pictures",))
    assert record_of(place.create(without)).packages == {"tiny-stack": "1.0"}


def wait_for(message: str, process: subprocess.Popen[str]) -> None:
    for line in process.stdout or ():
        if message in line:
            return
    pytest.fail(f"it ended without {message!r}")


def test_of_two_processes_one_creates_it_and_the_other_waits(place: Place) -> None:
    first = place.start(TINY_UNTIL=str(place.folder / "second waits"))
    wait_for("checking that it imports", first)
    second = place.start()
    wait_for("waiting", second)
    (place.folder / "second waits").touch()
    output, _ = second.communicate()
    first.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "already created" in output
    assert len(place.versions()) == 1


def test_after_a_kill_the_next_process_creates_it(place: Place) -> None:
    killed = place.start(TINY_UNTIL="/never")
    wait_for("checking that it imports", killed)
    killed.kill()
    killed.communicate()
    assert place.versions() == []
    assert place.leftovers() == [".making-tiny"]
    output, _ = place.start().communicate()
    assert "created, " in output
    assert len(place.versions()) == 1
    assert place.leftovers() == []


def test_a_termination_leaves_nothing_behind(place: Place) -> None:
    stopped = place.start(TINY_UNTIL="/never")
    wait_for("checking that it imports", stopped)
    stopped.terminate()
    stopped.communicate()
    assert (place.versions(), place.leftovers()) == ([], [])


def test_a_full_disk_is_reported_and_leaves_nothing(place: Place) -> None:
    """The disk is a file system of 24 MiB in a mount namespace of its own."""
    disk = place.folder / "small"
    disk.mkdir()
    inside = f'mount -t tmpfs -o size=24m none {disk} && exec "$@"'
    small_disk = ["unshare", "--mount", "--map-root-user", "sh", "-c", inside, "sh"]
    if run_command([*small_disk, "true"]).returncode:
        pytest.skip("no file system can be mounted here")
    place.add_wheel(padding_bytes=64 * MEBIBYTE)
    root = disk / "root"
    script = f'{sys.executable} {CREATE_SCRIPT} {root}; echo "left with $?"; ls -A {root}'
    result = run_command([*small_disk, "sh", "-c", script], place.variables)
    assert "No space left on device" in result.stdout
    assert "P3_ADVISOR_HOME" in result.stdout
    assert "left with 3" in result.stdout
    assert "made.json" not in result.stdout
    assert result.stdout.splitlines()[-1] == "tiny.lock"


def test_an_unwritable_directory_is_an_error(place: Place) -> None:
    place.root.write_text("a file where a directory should be")
    with pytest.raises(EnvironmentNotUsableError) as problem:
        place.create()
    assert "P3_ADVISOR_HOME" in problem.value.next_step


def test_an_environment_that_does_not_import_is_not_created(place: Place) -> None:
    problem = place.creation_error(variables={"TINY_BREAKS": "libmissing.so: cannot open"})
    assert "libmissing.so" in problem.what


def test_a_foreign_import_path_does_not_reach_it(place: Place) -> None:
    foreign = place.folder / "foreign"
    foreign.mkdir()
    for module in ("tiny_stack", "json", "importlib", "sitecustomize"):
        (foreign / f"{module}.py").write_text("raise SystemExit('foreign')")
    directory = place.create(variables={"PYTHONPATH": str(foreign), "PYTHONHOME": str(foreign)})
    assert env_creation.find_fault(directory, TINY, {"PYTHONPATH": str(foreign)}) is None


def change_a_package(directory: pathlib.Path, place: Place) -> None:
    place.add_wheel(version="2.0")
    command = [uv.find_uv_bin(), "pip", "install", "-qU", "--python"]
    command += [str(env_registry.interpreter_path(directory)), "tiny-stack"]
    subprocess.run(command, env=place.variables, check=True)


def remove_the_interpreter(directory: pathlib.Path, _: Place) -> None:
    python = env_registry.interpreter_path(directory)
    python.unlink()
    python.symlink_to("/nowhere/python3")


def remove_the_record(directory: pathlib.Path, _: Place) -> None:
    (directory / env_registry.RECORD_FILE).unlink()
    shutil.rmtree(directory / "lib")


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (change_a_package, "tiny-stack"),
        (remove_the_interpreter, "does not start"),
        (remove_the_record, "not completed"),
    ],
)
def test_a_broken_environment_is_found_and_repaired(
    damage: Callable[[pathlib.Path, Place], None], fault: str, place: Place
) -> None:
    directory = place.create()
    damage(directory, place)
    assert fault in str(env_creation.find_fault(directory, TINY, {}))
    assert place.create() == directory
    assert env_creation.find_fault(directory, TINY, {}) is None


def test_offline_creation_lists_the_missing_packages(place: Place) -> None:
    place.write_lock("tiny-stack==1.0\nnot-here==3.1\n")
    asked = builders.replace(TINY, requirements=("tiny-stack", "not-here"))
    problem = place.creation_error(asked, offline=True)
    assert "not-here" in problem.what
    assert "--offline" in problem.next_step


@pytest.mark.parametrize(
    ("changes", "words", "next_step"),
    [
        ({"python": "==3.4.*"}, "==3.4.*", "--python"),
        ({"requirements": ("tiny-stack>=9",)}, "tiny-stack", "repeat"),
    ],
)
def test_what_uv_says_is_reported_with_a_next_step(
    changes: dict[str, Any], words: str, next_step: str, place: Place
) -> None:
    problem = place.creation_error(
        builders.replace(TINY, **changes), variables={"UV_PYTHON_DOWNLOADS": "never"}
    )
    assert words in problem.what
    assert next_step in problem.next_step


def test_an_environment_in_use_is_not_removed(place: Place) -> None:
    directory = place.create()
    command = [str(env_registry.interpreter_path(directory)), "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        while not env_creation.is_in_use(directory):
            time.sleep(0.01)
        with pytest.raises(EnvironmentInUseError):
            env_creation.remove("tiny", directory.parent, print)
        process.kill()
    assert env_creation.find_fault(directory, TINY, {}) is None
    assert env_creation.remove("tiny", directory.parent, print)
    assert not directory.exists()
    assert not env_creation.remove("tiny", directory.parent, print)


def test_an_added_package_is_installed_and_kept_until_the_environment_is_removed(
    place: Place,
) -> None:
    place.add_wheel("tiny-layers")
    place.add_wheel("tiny-scales")
    both = {"tiny-layers": "1.0", "tiny-scales": "1.0", "tiny-stack": "1.0"}
    place.create()
    place.create(added=("tiny-layers",))
    directory = place.create(added=("tiny-scales",))
    record = record_of(directory)
    assert (record.packages, record.added) == (both, ("tiny-layers", "tiny-scales"))
    assert (directory.name, record.disk_bytes > 0) == (f"tiny-{record.digest}", True)
    assert env_creation.find_fault(directory, TINY, {}) is None

    stamp = (directory / env_registry.RECORD_FILE).stat().st_mtime_ns
    place.create(added=("tiny-layers",))
    assert (directory / env_registry.RECORD_FILE).stat().st_mtime_ns == stamp

    wheel = place.folder / "wheels" / "tiny_stack-1.0-py3-none-any.whl"
    place.write_lock(with_hash(hashlib.sha256(wheel.read_bytes()).hexdigest()))
    renewed = record_of(place.create())
    assert (renewed.packages, renewed.digest != record.digest) == (both, True)

    env_creation.remove("tiny", place.root, print)
    emptied = record_of(place.create())
    assert (emptied.packages, emptied.added) == ({"tiny-stack": "1.0"}, ())


def test_an_added_package_that_does_not_exist_leaves_the_environment_as_it_was(
    place: Place,
) -> None:
    directory = place.create()
    with pytest.raises(EnvironmentNotUsableError):
        place.create(added=("absent-package",))
    record = record_of(directory)
    assert (record.packages, record.added) == ({"tiny-stack": "1.0"}, ())
