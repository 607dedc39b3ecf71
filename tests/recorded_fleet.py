"""Records of fleets with fixed answers."""

from __future__ import annotations

from advisor.domain.answer import (
    FLEET_SCHEMA,
    Assignment,
    AssignmentResult,
    Attempt,
    FleetRecord,
    FleetRequest,
    Pool,
)

#: What a fleet says of the assignment that it could not run.
LOST = "the fleet has lost its last H200"


def answered(
    kind: str,
    *runs: str,
    model: str = "demo",
    number: int = 1,
    reason: str | None = None,
) -> AssignmentResult:
    """Return the result of an assignment that was tried in these runs."""
    return AssignmentResult(
        assignment=Assignment(number=number, model=model, kind=kind),
        attempts=tuple(Attempt(run_id=run, node="n1", device="0") for run in runs),
        reason=reason,
    )


def record(*results: AssignmentResult, fleet_id: str = "f") -> FleetRecord:
    """Return the record of a fleet whose assignments have these results."""
    request = FleetRequest(
        fleet_id=fleet_id,
        created="2026-11-21T12:00:00+00:00",
        models=tuple(dict.fromkeys(each.assignment.model for each in results)),
        pools=tuple(Pool(kind=kind) for kind in {each.assignment.kind: 0 for each in results}),
    )
    return FleetRecord(schema=FLEET_SCHEMA, request=request, answered=results)
