"""The host of the screens in a world of pretend workflows: `python host.py PROBES RUBRIC RUN`."""

import os
import pathlib
import signal
import sys

from advisor import pipeline
from advisor.cli import hosting
from advisor.store import Run, Store

probes, rubric, directory = map(pathlib.Path, sys.argv[1:4])
world = pipeline.World(environment=dict(os.environ), store=Store(directory.parents[1]), probes=probes, rubric=rubric)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
hosting.work(Run(directory), world, sys.stdin, hosting.say)
