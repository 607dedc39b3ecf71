"""Run one workflow without a race: import, open the model, build, check outputs, prove the path.

    python tests/run_workflow.py torch-compile-inductor/default --model demo --dtype float32

Real workers run, as in a measurement. What each reports is a line of JSON. The exit status is 1 if
a worker fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import pathlib
import sys
import tempfile

import msgspec

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import WorkerEnded, WorkerReported
from advisor.execute.drafts import create, draft_run
from advisor.execute.execution import run_config_of
from advisor.probing.session import WorkerSession
from advisor.store.store import Store
from probes.events import Imported, PhaseStarted


def run_arms(run_options: RunOptions, folder: pathlib.Path) -> bool:
    """Build and check the arms of the workflow, print the events; return whether none failed."""
    context = Context(environment=os.environ, store=Store(folder))
    run = create(draft_run(run_options, context), context)
    plan, failed = run.state().plan, False
    arms = [each for each in plan.arms if each != plan.baseline and not each.duplicate_of]
    with WorkerSession(run_config_of(run, run.header(), context)) as session:
        for event in itertools.chain(
            session.start_reference(plan.baseline, 0),
            session.start([(each, 0) for each in arms]),
            session.finish_reference(),
            *(session.build(each.id) for each in arms),
            session.stop(),
        ):
            if isinstance(event, WorkerEnded):
                failed |= event.outcome.failure is not None
                tell(event.arm, event.outcome)
            elif isinstance(event, WorkerReported) and event.arm != REFERENCE:
                tell(event.arm, event.worker_event)
    return not failed


def tell(arm: str, report: object) -> None:
    if isinstance(report, Imported):
        report = dataclasses.replace(report, environment=None)  # every installed package
    if not isinstance(report, PhaseStarted):
        sys.stdout.write(f"{arm} {msgspec.json.encode(report).decode()}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workflow", help="its id, or that of an arm")
    parser.add_argument("--model", default="demo")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--gpu", default="")
    parser.add_argument("--batch-sizes", default="4")
    options = vars(parser.parse_args())
    with tempfile.TemporaryDirectory() as folder:
        run_options = RunOptions(workflows=options.pop("workflow"), **options)
        sys.exit(not run_arms(run_options, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
