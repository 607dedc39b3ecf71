"""Start or resume a run of fake workflows, for tests that kill the process.

Usage: `python drive.py HOME PROBES RUBRIC WORKFLOWS`.
"""

import os
import pathlib
import sys

from advisor.context import Context
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store import Store

home, probes, rubric = map(pathlib.Path, sys.argv[1:4])
store = Store(home)
context = Context(environment=dict(os.environ), store=store, probes=probes, rubric=rubric)
answers = Answers(batch_sizes="1,2", budget="3", max_build_seconds=30.0, workflows=sys.argv[4])
run = prepare(answers, context) if store.is_empty() else store.newest_resumable()
for _ in execute(run, context):
    pass
