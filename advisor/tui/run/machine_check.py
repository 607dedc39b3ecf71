"""Check before a run whether the machine is quiet enough to measure on."""

from __future__ import annotations

from advisor.context import Context
from advisor.domain.machine import QuietProblem
from advisor.pipeline import quiet_check
from advisor.pipeline.draft import DraftRun


def find_load_problems(drafted: DraftRun, context: Context) -> tuple[QuietProblem, ...]:
    """Observe the machine for about a second and return what keeps it from being quiet."""
    limits = drafted.catalogue.presets.quiet
    if limits is None:
        return ()
    read = quiet_check.load_reader(drafted.machine, drafted.question.gpus, context)
    return quiet_check.check_now(read, limits).problems
