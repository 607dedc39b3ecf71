"""Environments that uv creates from small wheels: complete or absent, whatever happens."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import builders
import pytest
import uv
from forks import run_command
from wheels import write_wheel

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


@pytest.fixture
def variables(tmp_path: pathlib.Path) -> dict[str, str]:
    """Environment variables of uv: a folder of wheels, no index, and a cache of its own."""
    write_wheel(tmp_path / "wheels")
    return {
        **os.environ,
        "UV_FIND_LINKS": str(tmp_path / "wheels"),
        "UV_NO_INDEX": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
    }


@pytest.fixture
def make_settings(
    tmp_path: pathlib.Path, variables: dict[str, str]
) -> Callable[..., BuildSettings]:
    def make(lines: list[str] | None = None, **changes: Any) -> BuildSettings:
        more = {"inherited": {**variables, **changes.pop("variables", {})}, **changes}
        return BuildSettings(
            root=tmp_path / "root",
            catalogue_directory=tmp_path / "catalogue",
            interpreter=INTERPRETER,
            report=(lines if lines is not None else []).append,
            **more,
        )

    return make


MakeSettings = Callable[..., BuildSettings]


def versions(root: pathlib.Path) -> list[pathlib.Path]:
    return env_registry.find_versions(root, "tiny")


def record_of(directory: pathlib.Path) -> env_registry.CreationRecord:
    return builders.known(env_registry.read_record(directory))


def leftovers(root: pathlib.Path) -> list[str]:
    return [entry.name for entry in root.iterdir() if entry.name.startswith(".making")]


def creation_error(
    settings: BuildSettings, environment: Environment = TINY
) -> EnvironmentNotUsableError:
    with pytest.raises(EnvironmentNotUsableError) as problem:
        env_creation.create("tiny", environment, settings)
    assert versions(settings.root) == []
    assert leftovers(settings.root) == []
    return problem.value


def test_a_new_lock_file_replaces_the_environment(
    make_settings: MakeSettings, tmp_path: pathlib.Path
) -> None:
    write_wheel(tmp_path / "wheels", version="2.0")
    newest = env_creation.create("tiny", TINY, make_settings())
    write_lock(tmp_path, "# a comment\ntiny-stack==1.0\n")
    pinned = env_creation.create("tiny", TINY, make_settings())
    assert record_of(pinned).packages == {"tiny-stack": "1.0"}
    assert versions(pinned.parent) == [pinned]
    assert newest != pinned


def write_lock(tmp_path: pathlib.Path, text: str) -> None:
    lock = env_registry.lock_file(tmp_path / "catalogue", "tiny")
    lock.parent.mkdir(parents=True)
    lock.write_text(text)


def with_hash(digest: str) -> str:
    return f"tiny-stack==1.0 \\\n    --hash=sha256:{digest}\n"


def test_a_file_with_another_hash_is_not_installed_unless_the_user_allows_it(
    make_settings: MakeSettings, tmp_path: pathlib.Path
) -> None:
    write_lock(tmp_path, with_hash("0" * 64))
    problem = creation_error(make_settings())
    assert "tiny-stack==1.0" in problem.what
    assert "UV_NO_VERIFY_HASHES=1" in problem.next_step
    allowed = make_settings(variables={"UV_NO_VERIFY_HASHES": "1"})
    assert env_creation.create("tiny", TINY, allowed).is_dir()


def test_an_excluded_package_is_not_installed(
    make_settings: MakeSettings, tmp_path: pathlib.Path
) -> None:
    write_wheel(tmp_path / "wheels", requires="pictures>=1")
    assert "pictures" in creation_error(make_settings()).what
    without = builders.replace(TINY, excluded_packages=("pictures",))
    directory = env_creation.create("tiny", without, make_settings())
    assert record_of(directory).packages == {"tiny-stack": "1.0"}


def start(root: pathlib.Path, variables: dict[str, str], **more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(CREATE_SCRIPT), str(root)]
    return subprocess.Popen(
        command,
        env={**variables, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(message: str, process: subprocess.Popen[str]) -> None:
    for line in process.stdout or ():
        if message in line:
            return
    pytest.fail(f"it ended without {message!r}")


def test_of_two_processes_one_creates_it_and_the_other_waits(
    variables: dict[str, str], tmp_path: pathlib.Path
) -> None:
    first = start(tmp_path / "root", variables, TINY_UNTIL=str(tmp_path / "second waits"))
    wait_for("checking that it imports", first)
    second = start(tmp_path / "root", variables)
    wait_for("waiting", second)
    (tmp_path / "second waits").touch()
    output, _ = second.communicate()
    first.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "already created" in output
    assert len(versions(tmp_path / "root")) == 1


def test_after_a_kill_the_next_process_creates_it(
    variables: dict[str, str], tmp_path: pathlib.Path
) -> None:
    root = tmp_path / "root"
    killed = start(root, variables, TINY_UNTIL="/never")
    wait_for("checking that it imports", killed)
    killed.kill()
    killed.communicate()
    assert versions(root) == []
    assert leftovers(root) == [".making-tiny"]
    output, _ = start(root, variables).communicate()
    assert "created, " in output
    assert len(versions(root)) == 1
    assert leftovers(root) == []


def test_a_termination_leaves_nothing_behind(
    variables: dict[str, str], tmp_path: pathlib.Path
) -> None:
    root = tmp_path / "root"
    stopped = start(root, variables, TINY_UNTIL="/never")
    wait_for("checking that it imports", stopped)
    stopped.terminate()
    stopped.communicate()
    assert (versions(root), leftovers(root)) == ([], [])


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> list[str]:
    """The start of a command that runs with a file system of 24 MiB at `tmp_path / "small"`.

    The command runs in a mount namespace of its own.
    """
    (tmp_path / "small").mkdir()
    inside = f'mount -t tmpfs -o size=24m none {tmp_path / "small"} && exec "$@"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", inside, "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    return command


def test_a_full_disk_is_reported_and_leaves_nothing(
    small_disk: list[str], variables: dict[str, str], tmp_path: pathlib.Path
) -> None:
    write_wheel(tmp_path / "wheels", padding_bytes=64 * MEBIBYTE)
    root = tmp_path / "small" / "root"
    script = f'{sys.executable} {CREATE_SCRIPT} {root}; echo "left with $?"; ls -A {root}'
    result = run_command([*small_disk, "sh", "-c", script], variables)
    assert "No space left on device" in result.stdout
    assert "P3_ADVISOR_HOME" in result.stdout
    assert "left with 3" in result.stdout
    assert "made.json" not in result.stdout
    assert result.stdout.splitlines()[-1] == "tiny.lock"


def test_an_unwritable_directory_is_an_error(
    tmp_path: pathlib.Path, make_settings: MakeSettings
) -> None:
    (tmp_path / "root").write_text("a file where a directory should be")
    with pytest.raises(EnvironmentNotUsableError) as problem:
        env_creation.create("tiny", TINY, make_settings())
    assert "P3_ADVISOR_HOME" in problem.value.next_step


def test_an_environment_that_does_not_import_is_not_created(make_settings: MakeSettings) -> None:
    problem = creation_error(make_settings(variables={"TINY_BREAKS": "libmissing.so: cannot open"}))
    assert "libmissing.so" in problem.what


def test_a_foreign_import_path_does_not_reach_it(
    make_settings: MakeSettings, tmp_path: pathlib.Path
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for module in ("tiny_stack", "json", "importlib", "sitecustomize"):
        (foreign / f"{module}.py").write_text("raise SystemExit('foreign')")
    directory = env_creation.create(
        "tiny",
        TINY,
        make_settings(variables={"PYTHONPATH": str(foreign), "PYTHONHOME": str(foreign)}),
    )
    assert env_creation.find_fault(directory, TINY, {"PYTHONPATH": str(foreign)}) is None


def change_a_package(directory: pathlib.Path, variables: dict[str, str]) -> None:
    write_wheel(directory.parents[1] / "wheels", version="2.0")
    command = [uv.find_uv_bin(), "pip", "install", "-qU", "--python"]
    command += [str(env_registry.interpreter_path(directory)), "tiny-stack"]
    subprocess.run(command, env=variables, check=True)


def remove_the_interpreter(directory: pathlib.Path, _: dict[str, str]) -> None:
    python = env_registry.interpreter_path(directory)
    python.unlink()
    python.symlink_to("/nowhere/python3")


def remove_the_record(directory: pathlib.Path, _: dict[str, str]) -> None:
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
    damage: Callable[[pathlib.Path, dict[str, str]], None],
    fault: str,
    make_settings: MakeSettings,
    variables: dict[str, str],
) -> None:
    directory = env_creation.create("tiny", TINY, make_settings())
    damage(directory, variables)
    assert fault in str(env_creation.find_fault(directory, TINY, {}))
    assert env_creation.create("tiny", TINY, make_settings()) == directory
    assert env_creation.find_fault(directory, TINY, {}) is None


def test_offline_creation_lists_the_missing_packages(
    make_settings: MakeSettings, tmp_path: pathlib.Path
) -> None:
    write_lock(tmp_path, "tiny-stack==1.0\nnot-here==3.1\n")
    asked = builders.replace(TINY, requirements=("tiny-stack", "not-here"))
    problem = creation_error(make_settings(offline=True), asked)
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
    changes: dict[str, Any], words: str, next_step: str, make_settings: MakeSettings
) -> None:
    problem = creation_error(
        make_settings(variables={"UV_PYTHON_DOWNLOADS": "never"}), builders.replace(TINY, **changes)
    )
    assert words in problem.what
    assert next_step in problem.next_step


@contextlib.contextmanager
def process_in(directory: pathlib.Path) -> Iterator[None]:
    with subprocess.Popen(
        [env_registry.interpreter_path(directory), "-c", "input()"], stdin=subprocess.PIPE
    ) as process:
        while not env_creation.is_in_use(directory):
            time.sleep(0.01)
        yield
        process.kill()


def test_an_environment_in_use_is_not_removed(make_settings: MakeSettings) -> None:
    directory = env_creation.create("tiny", TINY, make_settings())
    with process_in(directory), pytest.raises(EnvironmentInUseError):
        env_creation.remove("tiny", directory.parent, print)
    assert env_creation.find_fault(directory, TINY, {}) is None
    assert env_creation.remove("tiny", directory.parent, print)
    assert not directory.exists()
    assert not env_creation.remove("tiny", directory.parent, print)


def test_an_added_package_is_installed_and_kept_until_the_environment_is_removed(
    make_settings: MakeSettings, tmp_path: pathlib.Path
) -> None:
    write_wheel(tmp_path / "wheels", "tiny-layers")
    write_wheel(tmp_path / "wheels", "tiny-scales")
    both = {"tiny-layers": "1.0", "tiny-scales": "1.0", "tiny-stack": "1.0"}
    env_creation.create("tiny", TINY, make_settings())
    env_creation.create("tiny", TINY, make_settings(added=("tiny-layers",)))
    directory = env_creation.create("tiny", TINY, make_settings(added=("tiny-scales",)))
    record = record_of(directory)
    assert (record.packages, record.added) == (both, ("tiny-layers", "tiny-scales"))
    assert (directory.name, record.disk_bytes > 0) == (f"tiny-{record.digest}", True)
    assert env_creation.find_fault(directory, TINY, {}) is None

    stamp = (directory / env_registry.RECORD_FILE).stat().st_mtime_ns
    env_creation.create("tiny", TINY, make_settings(added=("tiny-layers",)))
    assert (directory / env_registry.RECORD_FILE).stat().st_mtime_ns == stamp

    wheel = tmp_path / "wheels" / "tiny_stack-1.0-py3-none-any.whl"
    write_lock(tmp_path, with_hash(hashlib.sha256(wheel.read_bytes()).hexdigest()))
    renewed = record_of(env_creation.create("tiny", TINY, make_settings()))
    assert (renewed.packages, renewed.digest != record.digest) == (both, True)

    env_creation.remove("tiny", tmp_path / "root", print)
    emptied = record_of(env_creation.create("tiny", TINY, make_settings()))
    assert (emptied.packages, emptied.added) == ({"tiny-stack": "1.0"}, ())


def test_an_added_package_that_does_not_exist_leaves_the_environment_as_it_was(
    make_settings: MakeSettings,
) -> None:
    directory = env_creation.create("tiny", TINY, make_settings())
    with pytest.raises(EnvironmentNotUsableError):
        env_creation.create("tiny", TINY, make_settings(added=("absent-package",)))
    record = record_of(directory)
    assert (record.packages, record.added) == ({"tiny-stack": "1.0"}, ())
