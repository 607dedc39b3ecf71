"""Does a run in a process of its own, so that a test can kill it: `python drive.py HOME PROBES RUBRIC WORKFLOWS`."""

import os
import pathlib
import sys

from advisor.context import Context
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store import Store

home, probes, rubric = map(pathlib.Path, sys.argv[1:4])
world = Context(environment=dict(os.environ), store=Store(home), probes=probes, rubric=rubric)
run = prepare(
    Answers(batch_sizes="1,2", budget="3", max_build_seconds=30.0, workflows=sys.argv[4]), world
)
for _ in execute(run, world):
    pass
