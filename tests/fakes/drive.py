"""Start or resume a run of fake workflows, for tests that kill the process.

Usage: `python drive.py HOME PROBES CATALOGUE WORKFLOWS [BUDGET]`. Prints the number of each event
once it is stored. It resumes the newest unfinished run if there is one. Signals end it as they end
the program; a user error ends it with its exit code.
"""

import os
import pathlib
import sys

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.cli.interruption import InterruptedRunError, interruptions
from advisor.domain.errors import UserError
from advisor.execute.drafts import create, draft_run
from advisor.execute.execution import execute, newest_resumable
from advisor.store.store import Store

home, probes, catalogue = map(pathlib.Path, sys.argv[1:4])
store = Store(home)
context = Context(
    environment=dict(os.environ), store=store, probes=probes, catalogue_directory=catalogue
)
run_options = RunOptions(
    batch_sizes="1,2",
    budget=sys.argv[5] if len(sys.argv) > 5 else "3s",
    all_arms=True,
    max_build_seconds=30.0,
    workflows=sys.argv[4],
)
try:
    with interruptions():
        run = (
            create(draft_run(run_options, context), context)
            if store.is_empty()
            else newest_resumable(store)
        )
        for event in execute(run, context):
            print(event.seq, flush=True)
except UserError as problem:
    print(f"{problem.what}; next: {problem.next_step}", file=sys.stderr)
    sys.exit(problem.exit_code)
except InterruptedRunError as interruption:
    sys.exit(128 + interruption.number)
