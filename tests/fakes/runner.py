"""Execute a run of fake workflows for the screens.

Usage: `python runner.py PROBES CATALOGUE RUN [--wait-seconds SECONDS]`.
"""

import os
import pathlib
import signal
import sys

from advisor.ask.context import Context
from advisor.execute import runner
from advisor.store.runs import Run
from advisor.store.store import Store

probes, catalogue, directory = map(pathlib.Path, sys.argv[1:4])
context = Context(
    environment=dict(os.environ),
    store=Store(directory.parents[1]),
    probes=probes,
    catalogue_directory=catalogue,
)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
wait_seconds = float(sys.argv[5]) if len(sys.argv) > 5 else None
runner.execute_for_screens(Run(directory), context, sys.stdin, wait_seconds)
