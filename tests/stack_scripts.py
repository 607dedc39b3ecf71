"""Scripts in interpreters of their own, with the probes and stand-ins for stacks on their path."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from advisor import catalogue

STACKS = pathlib.Path(__file__).parent / "fakes" / "stacks"
#: Each script runs in an interpreter of its own, with the probes and a stand-in on its path, and
#: prints one object in JSON.
BEGIN = """
import json, os, pathlib, sys, tempfile
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import torch, workers

place = pathlib.Path(tempfile.mkdtemp())
subject = {"kind": "synthetic", "block": "ffn", "hidden": 8, "intermediate": 16, "layers": 1, "heads": 1}
request = workers.make_request(place / "none.py", place, subject=subject, dtype="bfloat16", options={"feeding": "host"})
told = {}

def tell(name, work):
    try:
        told[name] = work()
    except Exception as problem:
        told[name] = {"raised": type(problem).__name__, "reason": str(problem)}

def engage(workflow, sizes):
    workflow.settings(request)
    opened = workflow.open_subject(request)
    for size in sizes:
        inputs = opened.inputs(size, 0)
        program = workflow.build(opened, inputs, request)
    found = workflow.engagement(program, program.feed(inputs))
    return {"share": found.share, "proof": found.proof}
"""
END = "\nprint(json.dumps(told))"


def run(script: str, *stacks: str) -> dict[str, Any]:
    """Return what the script told, with these stand-ins on its path."""
    tests, root = pathlib.Path(__file__).parent, catalogue.probes_directory().parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(STACKS / stack) for stack in stacks),
    }
    command = [sys.executable, "-W", "ignore", "-c", BEGIN + script + END, str(root), str(tests)]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert answer.returncode == 0, answer.stderr
    told: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return told
