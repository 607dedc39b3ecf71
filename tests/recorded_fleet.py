"""Store a fleet with fixed answers."""

from __future__ import annotations

from advisor.domain.fleet import (
    FLEET_SCHEMA,
    Assignment,
    AssignmentResult,
    Attempt,
    FleetRecord,
    FleetRequest,
    Pool,
)
from advisor.store.store import Store

HOSTILE = "[/red]"


def store_fleet(
    store: Store, fleet_id: str, run_id: str, *, reason: str = "the fleet lost its last L40S"
) -> None:
    """Store the answers of a fleet: one with a run, one without."""
    request = FleetRequest(
        fleet_id=fleet_id,
        created="2026-11-21T12:00:00+00:00",
        models=("demo", HOSTILE),
        pools=(Pool(kind="H200"), Pool(kind="L40S")),
    )
    first = Assignment(number=1, model="demo", kind="H200")
    answered = (
        AssignmentResult(
            assignment=first, attempts=(Attempt(run_id=run_id, node="n1", device="0"),)
        ),
        AssignmentResult(
            assignment=Assignment(number=2, model=HOSTILE, kind="L40S"),
            attempts=(),
            reason=reason,
            next_step="add one",
        ),
    )
    store.fleets.save(FleetRecord(schema=FLEET_SCHEMA, request=request, answered=answered))
