"""Run workers one after the other, for tests that kill the supervising process.

Usage: `python supervise.py SCRIPT DIRECTORY`, with the requests as JSON on standard input. The
workers get the environment of this process and the variables of DIRECTORY/environment.json.
"""

import json
import os
import pathlib
import sys
import typing

import msgspec

from advisor.probing.supervisor import Supervisor
from advisor.probing.worker_process import Worker
from probes import commands, protocol
from probes.events import Imported, Ready
from probes.outcome import Phase
from probes.shape import Shape

script, directory = map(pathlib.Path, sys.argv[1:])
environment = {**os.environ, **json.loads((directory / "environment.json").read_text())}
deadlines = dict.fromkeys(typing.get_args(Phase), 600.0)
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
                    supervisor.send(worker, commands.Build())
                elif isinstance(message, Ready):
                    is_reference = request.role == "reference"
                    visit = commands.Visit(Shape(1), 1)
                    supervisor.send(worker, commands.ComputeOutputs() if is_reference else visit)
