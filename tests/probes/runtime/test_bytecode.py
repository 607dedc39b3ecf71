from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import sysconfig

import builders
import psutil
import pytest

from probes.runtime import bytecode

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{required}\n"


@pytest.fixture
def library(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The directory of a standard library with two modules, one of which is of its tests."""
    folder = tmp_path / "library"
    for name in ("json/decoder.py", "test/test_json.py"):
        write(folder / name)
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(folder))
    return folder


@pytest.fixture
def packages(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The directory of packages, the first of which requires the second and a missing one."""
    folder = tmp_path / "packages"
    install(folder, "one", "two[x]>=1.0 ; python_version > '3'", "missing", "three; extra == 'all'")
    install(folder, "two", "one", "four")
    install(folder, "three")
    install(folder, "four")
    monkeypatch.syspath_prepend(str(folder))
    return folder


def write(file: pathlib.Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("value = 1\n")


def install(folder: pathlib.Path, name: str, *required: str) -> None:
    files = [f"{name}/__init__.py", f"{name}/tests/test_it.py", f"{name}/data.txt", "../outside.py"]
    for each in files:
        write(folder / each)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    lines = "".join(f"Requires-Dist: {each}\n" for each in required)
    (about / "METADATA").write_text(METADATA.format(name=name, required=lines))
    (about / "RECORD").write_text("".join(f"{each},,\n" for each in files))


def test_sources_are_those_of_the_library_of_packages_and_of_what_they_require(
    library: pathlib.Path, packages: pathlib.Path
) -> None:
    found = list(bytecode.find_sources(["one", "unknown"]))
    assert found == [
        library / "json/decoder.py",
        packages / "one/__init__.py",
        packages / "two/__init__.py",
        packages / "three/__init__.py",
        packages / "four/__init__.py",
    ]


@pytest.mark.usefixtures("library")
def test_bytecode_is_where_python_looks_for_it(
    packages: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = tmp_path / "bytecode"
    directory.mkdir()
    monkeypatch.setattr(sys, "pycache_prefix", str(directory))
    monkeypatch.setattr(bytecode, "end_with_caller", lambda: None)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(directory))
    bytecode.main(str(directory), "1", "one")
    assert capsys.readouterr().out == "1"
    compiled = {each.name.split(".")[0] for each in directory.rglob("*.pyc")}
    assert {"decoder", "__init__"} <= compiled
    assert not list(packages.rglob("*.pyc"))
    module = pathlib.Path(str(packages).lstrip("/")) / "two"
    assert list((directory / module).glob("__init__.*.pyc"))
    # It is complete: what is removed is not compiled again, until the package has changed.
    (removed,) = (directory / module).glob("__init__.*.pyc")
    removed.unlink()
    bytecode.main(str(directory), "1", "one", "three")
    removed.unlink()
    bytecode.main(str(directory), "1", "one", "three")
    assert not removed.exists()
    (packages / "three/__init__.py").write_text("value = 2\n")
    bytecode.main(str(directory), "1", "one", "three")
    assert removed.exists()


def test_packages_with_bytecode_beside_their_sources_need_none(
    packages: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = packages / f"one/__pycache__/__init__.{sys.implementation.cache_tag}.pyc"
    write(file)
    bytecode.main(str(tmp_path), "1", "one")
    bytecode.main(str(tmp_path), "1", "unknown")
    assert capsys.readouterr().out == "00"
    assert not list(tmp_path.glob("*.pyc"))


def test_a_compilation_ends_with_its_caller(packages: pathlib.Path, tmp_path: pathlib.Path) -> None:
    command = [sys.executable, str(bytecode.__file__), str(tmp_path / "bytecode"), "1", "one"]
    variables = {"PYTHONPATH": str(packages), "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **variables},
        start_new_session=True,
    ) as compiler:
        assert builders.known(compiler.stdout).read(1) == b"1"
        assert psutil.Process(compiler.pid).is_running()
        builders.known(compiler.stdin).close()
        assert compiler.wait(timeout=60) == -signal.SIGKILL
    group = list[psutil.Process]()
    for each in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError):
            group += [each] if os.getpgid(each.pid) == compiler.pid else []
    assert not psutil.wait_procs(group, timeout=60)[1]
