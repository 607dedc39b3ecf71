"""The screens in a world of pretend workflows: `python show.py PROBES RUBRIC HOME`; probes with the answers that follow as NAME=VALUE."""

import os
import pathlib
import sys

from advisor.context import Context
from advisor.question.answers import Answers
from advisor.store import Run, Store
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.run.host_process import Host

probes, rubric, home = map(pathlib.Path, sys.argv[1:4])
command = (
    sys.executable,
    str(pathlib.Path(__file__).with_name("host.py")),
    str(probes),
    str(rubric),
)
world = Context(environment=dict(os.environ), store=Store(home), probes=probes, rubric=rubric)
wishes = LaunchOptions(answers=Answers(**dict(word.split("=", 1) for word in sys.argv[4:])))  # type: ignore[arg-type]


def start(run: Run) -> Host:
    """Start the process that works on a run."""
    return Host(run, command)


sys.exit(AdvisorApp(wishes, world, start_host=start).run())
