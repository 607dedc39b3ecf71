"""Run scripts in their own interpreter, with the probes and fake stacks on their path."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from advisor import catalogue

STACKS = pathlib.Path(__file__).parent / "fakes" / "stacks"
#: Precedes each script, which fills `results`, printed as JSON at the end.
BEGIN = """
import json, os, pathlib, sys, tempfile

sys.path[:0] = [sys.argv[1], sys.argv[2]]
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
END = """
print(json.dumps(results))
"""


def run(script: str, *stacks: str) -> dict[str, Any]:
    """Return the `results` of the script, run with these fake stacks on its path."""
    tests, root = pathlib.Path(__file__).parent, catalogue.probes_directory().parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(STACKS / stack) for stack in stacks),
    }
    command = [sys.executable, "-W", "ignore", "-c", BEGIN + script + END, str(root), str(tests)]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert answer.returncode == 0, answer.stderr
    results: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return results
