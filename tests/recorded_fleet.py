"""Fleets with fixed answers."""

from __future__ import annotations

from advisor.domain.answer import Fleet, FleetCell, Pool

#: What a fleet says of a run that it could not execute.
LOST = "the fleet has lost its last H200"


def cell(
    kind: str, run: str | None, *, model: str = "demo", attempts: int = 1, reason: str | None = None
) -> FleetCell:
    """Return the cell of a run."""
    return FleetCell(
        model=model,
        kind=kind,
        run_id=run,
        node="n1",
        device="0",
        attempts=attempts,
        reason=reason,
    )


def fleet_of(*cells: FleetCell, fleet_id: str = "20261121-120000-f1ee") -> Fleet:
    """Return a fleet with these cells."""
    return Fleet(
        fleet_id=fleet_id,
        created="2026-11-21T12:00:00+00:00",
        models=tuple(dict.fromkeys(each.model for each in cells)),
        pools=tuple(Pool(kind=kind) for kind in {each.kind: 0 for each in cells}),
        cells=cells,
    )
