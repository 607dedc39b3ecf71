"""A run that is measured while its events are read."""

from __future__ import annotations

from collections.abc import Generator

from advisor.api.report import Report
from advisor.context import Context
from advisor.domain.plan import Plan
from advisor.domain.run_events import LoggedEvent
from advisor.pipeline.decision import decide
from advisor.pipeline.execution import execute
from advisor.store.runs import Run


class Session:
    """A stored run with its plan; reading its events measures it."""

    def __init__(self, run: Run, context: Context) -> None:
        self._run = run
        self._context = context

    @property
    def run_id(self) -> str:
        return self._run.directory.name

    @property
    def plan(self) -> Plan:
        """The arms that are measured, and the reason for every other workflow."""
        plan = self._run.state().plan
        if plan is None:
            message = "a stored run has a plan"
            raise RuntimeError(message)
        return plan

    def events(self) -> Generator[LoggedEvent, None, None]:
        """Measure what is not measured yet; yield each event after it is stored.

        Closing the iterator stops the workers; a later call continues the run.
        """
        yield from execute(self._run, self._context)

    def report(self) -> Report:
        return Report(decide(self._run))
