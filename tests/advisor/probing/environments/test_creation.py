"""Environments made for real by uv from small wheels: whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import wheels

from advisor.domain.machine import Interpreter
from advisor.domain.workflow import Environment
from advisor.errors import EnvironmentInUseError, EnvironmentNotMadeError
from advisor.probing.environments import creation, health, places

MAKE = pathlib.Path(__file__).parents[3] / "fakes" / "make_environment.py"
HERE = Interpreter(
    executable=sys.executable, version=platform.python_version(), packages={}, torch_cuda=None
)
TINY = Environment(kind="own", name="tiny", requirements=("tiny-stack",), imports=("tiny_stack",))
MEBIBYTE = 2**20


@pytest.fixture
def variables(tmp_path: pathlib.Path) -> dict[str, str]:
    """What uv is told: these wheels, no index, and a cache that is nobody else's."""
    wheels.make(tmp_path / "wheels")
    return {
        **os.environ,
        "UV_FIND_LINKS": str(tmp_path / "wheels"),
        "UV_NO_INDEX": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
    }


@pytest.fixture
def shop(
    tmp_path: pathlib.Path, variables: dict[str, str]
) -> Callable[..., creation.BuildSettings]:
    def make(said: list[str] | None = None, **changes: Any) -> creation.BuildSettings:
        more = {"inherited": {**variables, **changes.pop("variables", {})}, **changes}
        say = (said if said is not None else []).append
        return creation.BuildSettings(
            root=tmp_path / "root", rubric=tmp_path / "rubric", interpreter=HERE, say=say, **more
        )

    return make


Shop = Callable[..., creation.BuildSettings]


def made(root: pathlib.Path) -> list[pathlib.Path]:
    return places.versions_of(root, "tiny")


def leftovers(root: pathlib.Path) -> list[str]:
    return [entry.name for entry in root.iterdir() if entry.name.startswith(".making")]


def refused(
    shop: creation.BuildSettings, environment: Environment = TINY
) -> EnvironmentNotMadeError:
    with pytest.raises(EnvironmentNotMadeError) as problem:
        creation.create("tiny", environment, shop)
    assert made(shop.root) == []
    assert leftovers(shop.root) == []
    return problem.value


def test_what_is_made_works_and_says_what_is_in_it(shop: Shop) -> None:
    directory = creation.create("tiny", TINY, shop())
    record = places.read_record(directory)
    assert record is not None
    assert record.packages == {"tiny-stack": "1.0"}
    assert record.disk_bytes > 0
    assert health.check(directory, TINY, {}).fault is None
    assert (directory.name, leftovers(directory.parent)) == (f"tiny-{record.digest}", [])


def test_a_second_creation_finds_the_first(shop: Shop) -> None:
    first = creation.create("tiny", TINY, shop())
    stamp = (first / places.RECORD).stat().st_mtime_ns
    said: list[str] = []
    assert creation.create("tiny", TINY, shop(said)) == first
    assert (first / places.RECORD).stat().st_mtime_ns == stamp
    assert "already made" in said[-1]


def test_a_new_lock_makes_it_anew_and_the_old_one_goes(shop: Shop, tmp_path: pathlib.Path) -> None:
    old = creation.create("tiny", TINY, shop())
    wheels.make(tmp_path / "wheels", version="2.0")
    lock = places.lock_file(tmp_path / "rubric", "tiny")
    lock.parent.mkdir(parents=True)
    lock.write_text("tiny-stack==2.0\n")
    new = creation.create("tiny", TINY, shop())
    record = places.read_record(new)
    assert record is not None
    assert (record.packages, made(new.parent)) == ({"tiny-stack": "2.0"}, [new])
    assert old != new


def test_a_lock_holds_back_what_is_newer(shop: Shop, tmp_path: pathlib.Path) -> None:
    wheels.make(tmp_path / "wheels", version="2.0")
    lock = places.lock_file(tmp_path / "rubric", "tiny")
    lock.parent.mkdir(parents=True)
    lock.write_text("# a comment\ntiny-stack==1.0\n")
    record = places.read_record(creation.create("tiny", TINY, shop()))
    assert record is not None
    assert record.packages == {"tiny-stack": "1.0"}


def test_a_package_that_others_ask_for_and_nothing_needs_is_left_out(
    shop: Shop, tmp_path: pathlib.Path
) -> None:
    wheels.make(tmp_path / "wheels", needs="pictures>=1")
    assert "pictures" in refused(shop()).what
    record = places.read_record(
        creation.create("tiny", msgspec.structs.replace(TINY, leaves_out=("pictures",)), shop())
    )
    assert record is not None
    assert record.packages == {"tiny-stack": "1.0"}


def start(root: pathlib.Path, variables: dict[str, str], **more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(MAKE), str(root)]
    return subprocess.Popen(
        command,
        env={**variables, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(words: str, process: subprocess.Popen[str]) -> None:
    for line in process.stdout or ():
        if words in line:
            return
    pytest.fail(f"it ended without saying {words!r}")


def test_of_two_creators_one_makes_it_and_the_other_waits(
    variables: dict[str, str], tmp_path: pathlib.Path
) -> None:
    first = start(tmp_path / "root", variables, TINY_SECONDS="1")
    wait_for("checking that it imports", first)
    second = start(tmp_path / "root", variables)
    said, _ = second.communicate()
    first.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "waiting" in said
    assert "already made" in said
    assert len(made(tmp_path / "root")) == 1


def test_after_a_kill_the_next_one_makes_it(
    variables: dict[str, str], tmp_path: pathlib.Path
) -> None:
    root = tmp_path / "root"
    killed = start(root, variables, TINY_SECONDS="60")
    wait_for("checking that it imports", killed)
    killed.kill()
    killed.communicate()
    assert made(root) == []
    assert leftovers(root) == [".making-tiny"]
    said, _ = start(root, variables).communicate()
    assert "made, " in said
    assert len(made(root)) == 1
    assert leftovers(root) == []


def test_a_termination_leaves_nothing_behind(
    variables: dict[str, str], tmp_path: pathlib.Path
) -> None:
    root = tmp_path / "root"
    stopped = start(root, variables, TINY_SECONDS="60")
    wait_for("checking that it imports", stopped)
    stopped.terminate()
    stopped.communicate()
    assert (made(root), leftovers(root)) == ([], [])


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> list[str]:
    """A command's beginning that runs it with a file system of 24 MiB at `tmp_path / "small"`, in a name space of its own."""
    (tmp_path / "small").mkdir()
    inside = f'mount -t tmpfs -o size=24m none {tmp_path / "small"} && exec "$@"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", inside, "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody mount a file system")
    return command


def test_a_full_disk_is_told_and_leaves_nothing(
    small_disk: list[str], variables: dict[str, str], tmp_path: pathlib.Path
) -> None:
    wheels.make(tmp_path / "wheels", padding=64 * MEBIBYTE)
    root = tmp_path / "small" / "root"
    look = f'{sys.executable} {MAKE} {root}; echo "left with $?"; ls -A {root}'
    answer = subprocess.run(
        [*small_disk, "sh", "-c", look], env=variables, capture_output=True, text=True, check=False
    )
    assert "the disk is full" in answer.stdout
    assert "P3_ADVISOR_HOME" in answer.stdout
    assert "left with 3" in answer.stdout
    assert "made.json" not in answer.stdout
    assert answer.stdout.splitlines()[-1] == "tiny.lock"


def test_a_directory_that_cannot_be_written_is_told(tmp_path: pathlib.Path, shop: Shop) -> None:
    (tmp_path / "root").write_text("a file where a directory should be")
    with pytest.raises(EnvironmentNotMadeError, match="cannot be made in"):
        creation.create("tiny", TINY, shop())


def test_what_does_not_import_is_not_made(shop: Shop) -> None:
    problem = refused(shop(variables={"TINY_BREAKS": "libmissing.so: cannot open"}))
    assert "libmissing.so" in problem.what


def test_a_poisoned_import_path_does_not_reach_it(shop: Shop, tmp_path: pathlib.Path) -> None:
    poison = tmp_path / "poison"
    poison.mkdir()
    for module in ("tiny_stack", "json", "importlib", "sitecustomize"):
        (poison / f"{module}.py").write_text("raise SystemExit('poisoned')")
    directory = creation.create(
        "tiny", TINY, shop(variables={"PYTHONPATH": str(poison), "PYTHONHOME": str(poison)})
    )
    assert health.check(directory, TINY, {"PYTHONPATH": str(poison)}).fault is None


def test_our_own_packages_in_another_version_stay_where_they_are(
    shop: Shop, tmp_path: pathlib.Path
) -> None:
    wheels.make(tmp_path / "wheels", name="probes", content="raise ImportError('not ours')")
    both = Environment(
        kind="own", name="tiny", requirements=("tiny-stack", "probes"), imports=("tiny_stack",)
    )
    directory = creation.create("tiny", both, shop())
    worker = pathlib.Path(__file__).parents[4] / "probes" / "worker.py"
    load = f"import runpy; made = runpy.run_path({str(worker)!r}); made['register_package'](); import probes.protocol as p; print(p.VERSION)"
    answer = subprocess.run(
        [places.python_in(directory), "-c", load], capture_output=True, text=True, check=False
    )
    assert (answer.stdout.strip(), answer.stderr) == ("1", "")


def test_what_was_changed_since_is_found_and_mended(
    shop: Shop, variables: dict[str, str], tmp_path: pathlib.Path
) -> None:
    directory = creation.create("tiny", TINY, shop())
    wheels.make(tmp_path / "wheels", version="2.0")
    uv = creation._find_uv("tiny", TINY)
    subprocess.run(
        [uv, "pip", "install", "-qU", "--python", places.python_in(directory), "tiny-stack"],
        env=variables,
        check=True,
    )
    assert (
        health.check(directory, TINY, {}).fault
        == "packages were changed since it was made: tiny-stack"
    )
    said: list[str] = []
    lock = places.lock_file(tmp_path / "rubric", "tiny")
    lock.parent.mkdir(parents=True)
    assert creation.create("tiny", TINY, shop(said)) == directory
    assert any("made anew, because packages were changed" in line for line in said)
    assert health.check(directory, TINY, {}).fault is None


def test_an_interpreter_that_is_gone_is_found_and_mended(shop: Shop) -> None:
    directory = creation.create("tiny", TINY, shop())
    python = places.python_in(directory)
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert "does not start" in str(health.check(directory, TINY, {}).fault)
    assert creation.create("tiny", TINY, shop()) == directory
    assert health.check(directory, TINY, {}).fault is None


def test_an_interpreter_that_is_no_python_is_told(shop: Shop) -> None:
    directory = creation.create("tiny", TINY, shop())
    python = places.python_in(directory)
    python.unlink()
    python.write_text("#!/bin/sh\necho this is no python >&2\nexit 1\n")
    python.chmod(0o755)
    assert (
        health.check(directory, TINY, {}).fault == "its interpreter does not run: this is no python"
    )


def test_offline_says_exactly_what_is_missing(shop: Shop, tmp_path: pathlib.Path) -> None:
    lock = places.lock_file(tmp_path / "rubric", "tiny")
    lock.parent.mkdir(parents=True)
    lock.write_text("tiny-stack==1.0\nnot-here==3.1\n")
    asked = Environment(
        kind="own", name="tiny", requirements=("tiny-stack", "not-here"), imports=("tiny_stack",)
    )
    problem = refused(shop(offline=True), asked)
    assert "uv's cache lacks not-here==3.1" in problem.what
    assert "tiny-stack" not in problem.what


def test_a_python_that_nobody_has_is_told(shop: Shop) -> None:
    asked = Environment(
        kind="own",
        name="tiny",
        requirements=("tiny-stack",),
        python="==3.4.*",
        imports=("tiny_stack",),
    )
    problem = refused(shop(variables={"UV_PYTHON_DOWNLOADS": "never"}), asked)
    assert "needs Python ==3.4.*" in problem.what
    assert "--python" in problem.next_step


def test_what_uv_says_is_passed_on_when_nothing_fits(shop: Shop) -> None:
    problem = refused(
        shop(), Environment(kind="own", name="tiny", requirements=("tiny-stack>=9",), imports=())
    )
    assert "tiny-stack" in problem.what


@contextlib.contextmanager
def working_in(directory: pathlib.Path) -> Iterator[None]:
    with subprocess.Popen(
        [places.python_in(directory), "-c", "input()"], stdin=subprocess.PIPE
    ) as process:
        while not creation.is_used(directory):
            time.sleep(0.01)
        yield
        process.kill()


def test_what_is_in_use_is_not_removed(shop: Shop) -> None:
    directory = creation.create("tiny", TINY, shop())
    with working_in(directory), pytest.raises(EnvironmentInUseError):
        creation.remove("tiny", directory.parent, print)
    assert health.check(directory, TINY, {}).fault is None
    assert creation.remove("tiny", directory.parent, print)
    assert not directory.exists()
    assert not creation.remove("tiny", directory.parent, print)


def test_what_is_half_removed_counts_for_nothing(shop: Shop) -> None:
    directory = creation.create("tiny", TINY, shop())
    (directory / places.RECORD).unlink()
    shutil.rmtree(directory / "lib")
    assert places.read_record(directory) is None
    assert creation.create("tiny", TINY, shop()) == directory
    assert health.check(directory, TINY, {}).fault is None
