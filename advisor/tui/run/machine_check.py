"""Check before a run whether the machine is quiet enough to measure on."""

from __future__ import annotations

from advisor.context import Context
from advisor.domain.machine import LoadProblem
from advisor.pipeline import load_check
from advisor.pipeline.draft import DraftRun


def find_load_problems(drafted: DraftRun, context: Context) -> tuple[LoadProblem, ...]:
    """Observe the machine for about a second and return what keeps it from being quiet."""
    limits = drafted.catalogue.presets.quiet
    if limits is None:
        return ()
    read = load_check.load_reader(drafted.machine, drafted.question.gpu, context)
    return load_check.check_now(read, limits).problems
