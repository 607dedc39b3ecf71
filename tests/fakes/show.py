"""Show the screens with fake workflows.

Usage: `python show.py PROBES CATALOGUE HOME [NAME=VALUE ...]`, with the answers of a new run.
"""

import functools
import os
import pathlib
import sys

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.store.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.followed_run import RunnerProcess
from advisor.tui.launch import LaunchOptions

probes, catalogue, home = map(pathlib.Path, sys.argv[1:4])
runner = pathlib.Path(__file__).with_name("runner.py")
command = (sys.executable, *map(str, (runner, probes, catalogue)))
context = Context(
    environment=dict(os.environ), store=Store(home), probes=probes, catalogue_directory=catalogue
)
answers = dict(word.split("=", 1) for word in sys.argv[4:])
launch_options = LaunchOptions(run_options=RunOptions(**answers))
start = functools.partial(RunnerProcess, command=command)
app = AdvisorApp(launch_options, context, start_runner=start)
code = app.run()
print(app.exit_message())
sys.exit(code)
