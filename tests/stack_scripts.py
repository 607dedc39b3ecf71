"""Run scripts in processes of their own, with the probes and fake stacks on their path."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Protocol

from advisor.catalogue import rubric_files

STACKS = pathlib.Path(__file__).parent / "fakes" / "stacks"
#: Imports torch, which takes seconds, and then runs each script in a fork of itself. A line of its
#: input names a directory with the script, and it answers with the status of the process.
SERVER = """
import json, os, pathlib, sys, traceback

sys.path[:0] = sys.argv[1:3]
import torch, workers


def execute(directory, stacks):
    log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path[2:2] = stacks
    os.environ["PYTHONPATH"] = os.pathsep.join(stacks)
    names = {"__name__": "__main__"}
    try:
        exec(compile((directory / "script.py").read_text(), directory / "script.py", "exec"), names)
        (directory / "results.json").write_text(json.dumps(names["results"]))
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


for line in sys.stdin:
    asked = json.loads(line)
    process = os.fork()
    if process == 0:
        os._exit(execute(pathlib.Path(asked["directory"]), asked["stacks"]))
    print(os.waitpid(process, 0)[1], flush=True)
"""
#: Precedes each script, which fills `results`.
BEGIN = """
import json, os, pathlib, sys, tempfile

import torch, workers

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


class RunScript(Protocol):
    """Runs a script with these fake stacks on its path, and returns its `results`."""

    def __call__(self, script: str, *stacks: str) -> dict[str, Any]: ...


class ScriptServer:
    """An interpreter with torch, a fork of which runs each script."""

    def __init__(self) -> None:
        paths = (rubric_files.probes_directory().parent, pathlib.Path(__file__).parent)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SERVER, *map(str, paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *stacks: str) -> dict[str, Any]:
        """Return the `results` of the script, run with these fake stacks on its path."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            (directory / "script.py").write_text(BEGIN + script)
            asked = {"directory": name, "stacks": [str(STACKS / stack) for stack in stacks]}
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            status = self._process.stdout.readline().strip()
            log = directory / "log"
            assert status == "0", log.read_text() if log.exists() else status
            results: dict[str, Any] = json.loads((directory / "results.json").read_bytes())
        return results

    def close(self) -> None:
        """End the interpreter."""
        self._process.communicate()
