"""What fleets have answered, read from what is stored: the matrix, and the documents of its runs."""

from __future__ import annotations

from advisor.domain.fleet import FleetRecord
from advisor.errors import RunFileError, UnknownRunError
from advisor.pipeline.decision import decide
from advisor.report import document, fleet_matrix
from advisor.report.document import RunDocument
from advisor.report.fleet_matrix import FleetDocument
from advisor.store import Store


def documents_of(kept: FleetRecord, store: Store) -> dict[str, RunDocument]:
    """Decide the run of every answer from what is stored, by run id; those that are gone are left out."""
    documents = {}
    for answered in kept.answered:
        for attempt in answered.attempts[-1:]:
            try:
                decision = decide(store.find(attempt.run_id))
            except (UnknownRunError, RunFileError):
                continue
            documents[attempt.run_id] = document.compose(decision)
    return documents


def read_answer(name: str, store: Store) -> FleetDocument:
    """Return the answer of the fleet with this id, or `latest`; raise `UnknownRunError` or `RunFileError`."""
    kept = store.fleets.find(name)
    return fleet_matrix.compose(kept, documents_of(kept, store))
