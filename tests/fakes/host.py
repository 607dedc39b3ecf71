"""The host of the screens in a world of pretend workflows: `python host.py PROBES RUBRIC RUN`."""

import os
import pathlib
import signal
import sys

from advisor.cli import host
from advisor.context import Context
from advisor.store import Run, Store

probes, rubric, directory = map(pathlib.Path, sys.argv[1:4])
world = Context(
    environment=dict(os.environ), store=Store(directory.parents[1]), probes=probes, rubric=rubric
)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
host.work(Run(directory), world, sys.stdin, host.say)
