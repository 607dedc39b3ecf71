"""Drives workers in a process of its own, so that a test can kill it: `python supervise.py SCRIPT DIRECTORY`, requests on standard input.

The workers are run one after the other and have the environment of this process and what
DIRECTORY/environment.json adds to it.
"""

import json
import os
import pathlib
import sys

import msgspec

from advisor.domain.catalogue import Deadlines
from advisor.domain.worker_events import Imported, Ready
from advisor.probing.supervisor import Supervisor
from advisor.probing.worker_process import Worker
from probes import protocol

script, directory = map(pathlib.Path, sys.argv[1:])
environment = {**os.environ, **json.loads((directory / "environment.json").read_text())}
deadlines = Deadlines(
    **dict.fromkeys(
        (
            "start",
            "import_",
            "load",
            "correctness",
            "warmup",
            "visit",
            "sustain",
            "diagnose",
            "done",
        ),
        600.0,
    )
)
with Supervisor(deadlines) as supervisor:
    for number, request in enumerate(
        msgspec.json.decode(sys.stdin.buffer.readline(), type=list[protocol.Request])
    ):
        worker = supervisor.start(
            request,
            directory / f"control-{number}",
            process=0,
            interpreter=sys.executable,
            script=script,
            environment=environment,
            max_build_seconds=600.0,
        )
        assert isinstance(worker, Worker)
        while worker.outcome is None:
            for _, message in supervisor.poll():
                if isinstance(message, Imported):
                    supervisor.send(worker, "build")
                elif isinstance(message, Ready):
                    supervisor.send(worker, "peaks" if request.role == "reference" else "visit 1 1")
