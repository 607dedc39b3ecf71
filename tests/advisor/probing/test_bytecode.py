from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys

import builders
import psutil
import pytest
import sessions

from advisor.ask.context import Context
from advisor.execute.execution import execute
from advisor.probing import bytecode
from advisor.probing.env_variables import worker_environment
from probes.events import PhaseStarted

PROCESSORS = bytecode.FEWEST_PROCESSORS
#: Compiles without an end, after it has said that there is no bytecode.
COMPILER = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1], "pid").write_text(str(os.getpid()))
sys.stdout.write("{answer}")
sys.stdout.flush()
time.sleep(600)
"""


def write_compiler(probes: pathlib.Path, answer: str = "1") -> None:
    file = probes / "runtime/bytecode.py"
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(COMPILER.format(answer=answer))


def is_compiling(directory: pathlib.Path) -> bool:
    return bool(psutil.pid_exists(int((directory / "pid").read_text())))


def test_packages_without_bytecode_are_compiled_until_something_is_timed(
    tmp_path: pathlib.Path,
) -> None:
    write_compiler(tmp_path)
    home = {"P3_ADVISOR_HOME": str(tmp_path / "home")}
    with bytecode.compiled_bytecode(sys.executable, tmp_path, home, PROCESSORS) as found:
        assert found is not None
        assert found.directory == tmp_path / "home/bytecode"
        assert is_compiling(found.directory)
        found.stop()
        assert not is_compiling(found.directory)
    with bytecode.compiled_bytecode(sys.executable, tmp_path, home, PROCESSORS) as found:
        assert is_compiling(builders.known(found).directory)
    assert not is_compiling(tmp_path / "home/bytecode")


@pytest.mark.parametrize(
    ("python", "answer", "processors", "inherited"),
    [
        (sys.executable, "0", PROCESSORS, {}),
        (sys.executable, "1", PROCESSORS - 1, {}),
        (sys.executable, "1", PROCESSORS, {bytecode.DIRECTORY_VARIABLE: "/own"}),
        ("/missing/python", "1", PROCESSORS, {}),
        ("/bin/false", "1", PROCESSORS, {}),
        # A directory that cannot be made.
        (sys.executable, "1", PROCESSORS, {"P3_ADVISOR_HOME": "/dev/null"}),
    ],
)
def test_otherwise_workers_import_as_python_does(
    tmp_path: pathlib.Path, python: str, answer: str, processors: int, inherited: dict[str, str]
) -> None:
    write_compiler(tmp_path, answer)
    home = {"P3_ADVISOR_HOME": str(tmp_path / "home"), **inherited}
    with bytecode.compiled_bytecode(python, tmp_path, home, processors) as found:
        assert found is None


@pytest.mark.parametrize(("own_environment", "expected"), [(False, "/bytecode"), (True, None)])
def test_the_users_interpreter_alone_has_its_bytecode_there(
    tmp_path: pathlib.Path, *, own_environment: bool, expected: str | None
) -> None:
    variables = worker_environment(
        {},
        builders.question(),
        1,
        tmp_path,
        own_environment=own_environment,
        bytecode=pathlib.Path("/bytecode"),
    )
    assert variables.get(bytecode.DIRECTORY_VARIABLE) == expected


@pytest.mark.slow
def test_a_run_compiles_beside_its_imports_alone(
    context: Context, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "FEWEST_PROCESSORS", 1)
    home = tmp_path / "home"
    probes = shutil.copytree(context.probes, tmp_path / "probes")
    variables = {**os.environ, "P3_ADVISOR_HOME": str(home)}
    context = builders.replace(context, probes=probes, environment=variables)
    write_compiler(probes)
    run = sessions.create_run(context, sessions.short_options("quick"))
    directories, beside = set[str | None](), dict[str, set[bool]]()
    for event in execute(run, context):
        for reported in filter(None, [sessions.worker_event_of(event)]):
            if isinstance(reported, PhaseStarted):
                beside.setdefault(reported.phase, set()).add(is_compiling(home / "bytecode"))
            for each in () if directories else psutil.Process().children(recursive=True):
                # Another process may end meanwhile.
                with contextlib.suppress(psutil.Error):
                    if any(part.endswith("worker.py") for part in each.cmdline()):
                        directories.add(each.environ().get(bytecode.DIRECTORY_VARIABLE))
    assert directories == {str(home / "bytecode")}
    assert any(beside.pop("import"))  # those of workers that start later follow it
    # The first measurement is that of the processor's peak rates.
    assert next(iter(beside)) == "measure"
    assert set.union(*beside.values()) == {False}
