"""What a session of resident workers is brought up with, and what is picked out of its happenings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import builders

from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import Ended, RunEvent, WorkerReported
from advisor.probing.session import Session

QUICK = builders.arm("quick", options={"milliseconds": 1})
ALIKE = builders.arm("alike/slow", options={"milliseconds": 2})
BASELINE = builders.arm("pytorch-eager", options={"milliseconds": 1})


def bring_up(session: Session, *arms: Arm) -> list[RunEvent]:
    """Make the reference and import, as the pipeline does before the first build."""
    return [
        *session.make_reference(BASELINE, 0),
        *session.start((arm, 0) for arm in arms),
        *session.ask(REFERENCE, "peaks"),
    ]


def said(run_events: Iterable[RunEvent], kind: type[Any], arm: str | None = None) -> list[Any]:
    """Return what workers said of this kind."""
    heard = [run_event for run_event in run_events if isinstance(run_event, WorkerReported)]
    return [each.said for each in heard if isinstance(each.said, kind) and arm in {None, each.arm}]


def ends(run_events: Iterable[RunEvent]) -> dict[str, object]:
    """Return how each arm ended."""
    return {
        run_event.arm: run_event.outcome for run_event in run_events if isinstance(run_event, Ended)
    }
