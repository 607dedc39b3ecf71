"""No file of the current directory is executed by a process that the program starts."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
import workers
from builders import question

from advisor.ask import detection, rubric_files
from advisor.probing.environments import uv_runner
from advisor.probing.environments.variables import worker_environment
from advisor.tui.session import HOST_COMMAND

pytestmark = pytest.mark.slow

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")
#: Modules of the standard library, of pip and of a stack that our children import.
SHADOWED = (
    "json",
    "typing",
    "pathlib",
    "platform",
    "runpy",
    "threading",
    "subprocess",
    "pip",
    "numpy",
    "torch",
    "advisor",
)


@pytest.fixture
def checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory with modules that record that they were imported."""
    directory = tmp_path / "checkout"
    directory.mkdir()
    for name in SHADOWED:
        package = directory / name
        package.mkdir()
        for file in ("__init__.py", "__main__.py", "version.py"):
            (package / file).write_text(
                f"open({str(directory / 'executed')!r}, 'a').write({name + '/' + file!r} + '\\n')\n"
                "raise SystemExit(1)\n"
            )
    return directory


def executed(checkout: pathlib.Path) -> list[str]:
    file = checkout / "executed"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([str(COMMAND), "workflows"], id="workflows"),
        pytest.param([str(COMMAND), "doctor"], id="doctor"),
        pytest.param([*HOST_COMMAND, "--help"], id="the host of the screens"),
    ],
)
def test_commands_execute_nothing_in_the_current_directory(
    command: list[str], checkout: pathlib.Path, home: pathlib.Path
) -> None:
    environment = {**os.environ, "P3_ADVISOR_HOME": str(home)}
    answer = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert executed(checkout) == []
    assert answer.returncode in {0, 3}, answer.stderr


def test_detecting_an_interpreter_and_reading_pip_execute_nothing_in_the_current_directory(
    checkout: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    uv_runner.read_pip_settings(os.environ)
    monkeypatch.setenv("PYTHONPATH", "/nowhere:")
    detection.detect_interpreter(sys.executable, ["torch"])
    assert executed(checkout) == []


#: A workflow whose stack starts Python processes in the two usual ways.
STARTS_PYTHON = """
import subprocess, sys
def versions():
    for arguments in (["-m", "json.tool", "--help"], ["-c", "import json, numpy"]):
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return {}
def settings(request):
    return {}
def open_subject(request):
    raise RuntimeError("far enough")
"""


# Python 3.10 ignores PYTHONSAFEPATH, so there the Python processes that a stack starts may import
# from the current directory. docs/security.md says so.
@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs PYTHONSAFEPATH of Python 3.11")
@pytest.mark.parametrize("python_path", [None, "/nowhere:"])
def test_processes_of_a_stack_import_nothing_from_the_current_directory(
    python_path: str | None,
    checkout: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workflow = tmp_path / "starts_python.py"
    workflow.write_text(STARTS_PYTHON)
    monkeypatch.chdir(checkout)
    inherited = {**os.environ, **({"PYTHONPATH": python_path} if python_path else {})}
    result = workers.run_worker(
        workers.make_request(workflow, tmp_path),
        tmp_path / "control",
        "build\n",
        environment=worker_environment(inherited, question(), 1, tmp_path / "scratch"),
        probes=rubric_files.probes_directory(),
    )
    assert executed(checkout) == []
    assert "far enough" in json.dumps(result.failure)
