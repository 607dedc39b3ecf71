"""Run commands, and code in forks of an interpreter that has imported its modules already."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from advisor.ask import catalogue_files

STACKS = pathlib.Path(__file__).parent / "fakes" / "stacks"
#: Each line of its input describes a process. It prints the exit code of each.
SERVER = """
import gc, importlib, json, os, sys

for name in sys.argv[1:]:
    importlib.import_module(name)
# The collector would write to all pages that the forks share.
gc.collect()
gc.freeze()


def execute(asked):
    for number, name in enumerate((asked["stdin"], asked["stdout"], asked["stderr"])):
        flags = os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY
        os.dup2(os.open(name, flags), number)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["directory"])
    sys.argv = ["-c", *asked["arguments"]]
    sys.path[:0] = asked["path"]
    exec(compile(asked["code"], "<test>", "exec"), {"__name__": "__main__"})


for line in sys.stdin:
    asked = json.loads(line)
    process = os.fork()
    if process == 0:
        execute(asked)
        break
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""
#: Precedes each script with stacks, which fills `results`.
BEGIN = """
import dataclasses, functools, json, os, pathlib, sys, tempfile, types

import torch, workers

from probes import protocol

directory = pathlib.Path(tempfile.mkdtemp())
subject = {
    "kind": "synthetic",
    "block": "ffn",
    "hidden": 8,
    "intermediate": 16,
    "layers": 1,
    "heads": 1,
}
request = workers.make_request(
    directory / "none.py", directory, subject=subject, dtype="bfloat16", options={"feeding": "host"}
)
results = {}


def record(name, work):
    try:
        results[name] = work()
    except Exception as problem:
        results[name] = {"raised": type(problem).__name__, "reason": str(problem)}


def engage(workflow, sizes):
    workflow.settings(request)
    opened = workflow.open_subject(request)
    for size in sizes:
        inputs = opened.inputs(size, 0)
        program = workflow.build(opened, inputs, request)
    found = workflow.engagement(program, program.feed(inputs))
    return {"share": found.share, "proof": found.proof}
"""
#: Ends without clearing the modules of the stack, which takes longer than most scripts.
END = """
pathlib.Path(sys.argv[1]).write_text(json.dumps(results))
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""


def run_command(
    command: Sequence[str | pathlib.Path],
    variables: Mapping[str, str] | None = None,
    directory: pathlib.Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command with these variables on top of those of this process."""
    environment = {**os.environ, **(variables or {})}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def assert_error(answer: subprocess.CompletedProcess[str], code: int) -> None:
    """Assert that the program ended with this exit code, an error of a user and its next step."""
    assert answer.returncode == code, answer.stderr
    assert "Traceback" not in answer.stderr
    assert "Exception ignored" not in answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("  next: ")


#: Runs a command of the program.
RunCli = Callable[..., subprocess.CompletedProcess[str]]


class RunScript(Protocol):
    """Runs a script with these fake stacks on its path, and returns its `results`."""

    def __call__(self, script: str, *stacks: str) -> dict[str, Any]: ...


class RunProgram(Protocol):
    """Runs the program in a process of its own, in the directory of the test.

    Its runs and settings are below `home`, by default the fixture of this name. `streams` name
    files for the standard streams.
    """

    def __call__(
        self,
        *arguments: str,
        home: pathlib.Path = ...,
        environment: Mapping[str, str] | None = None,
        **streams: str,
    ) -> subprocess.CompletedProcess[str]: ...


class ForkServer:
    """An interpreter that has imported modules, which takes seconds for a stack."""

    def __init__(self, *modules: str) -> None:
        paths = (catalogue_files.probes_directory().parent, pathlib.Path(__file__).parent)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SERVER, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        )

    def run(
        self,
        code: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        directory: pathlib.Path | None = None,
        path: Sequence[str] = (),
        stdin: str = os.devnull,
        stdout: str | None = None,
        stderr: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run code in a process of its own, with `path` before its import path.

        Outputs go to the files that are named, or are returned.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as name:
            printed = [pathlib.Path(name, each) for each in ("stdout", "stderr")]
            asked = {
                "code": code,
                "arguments": arguments,
                "environment": dict(os.environ if environment is None else environment),
                "directory": str(directory or pathlib.Path.cwd()),
                "path": path,
                "stdin": stdin,
                "stdout": stdout or str(printed[0]),
                "stderr": stderr or str(printed[1]),
            }
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            texts = [file.read_text() if file.exists() else "" for file in printed]
        return subprocess.CompletedProcess(list(arguments), status, *texts)

    def run_script(self, script: str, *stacks: str) -> dict[str, Any]:
        """Return the `results` of a script, run with these fake stacks on its path."""
        path = [str(STACKS / stack) for stack in stacks]
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name, "results.json")
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
            code = BEGIN + script + END
            ended = self.run(code, str(file), environment=environment, path=path)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            results: dict[str, Any] = json.loads(file.read_bytes())
        return results

    def close(self) -> None:
        self._process.communicate()
