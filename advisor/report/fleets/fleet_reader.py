"""Read a stored fleet: the documents of its runs, and its matrix."""

from __future__ import annotations

from advisor.domain.fleet import FleetRecord
from advisor.errors import RunFileError, UnknownRunError
from advisor.pipeline.decision import decide
from advisor.report.documents import measured_document
from advisor.report.documents.document import RunDocument
from advisor.report.fleets import fleet_matrix
from advisor.report.fleets.fleet_matrix import FleetDocument
from advisor.store.store import Store


def read_run_documents(record: FleetRecord, store: Store) -> dict[str, RunDocument]:
    """Decide the last run of each result from its stored events and return the documents by run id.

    Runs that are missing or unreadable are left out.
    """
    documents = {}
    for result in record.answered:
        for attempt in result.attempts[-1:]:
            try:
                decision = decide(store.find(attempt.run_id))
            except (UnknownRunError, RunFileError):
                continue
            documents[attempt.run_id] = measured_document.compose(decision)
    return documents


def read_fleet_document(name: str, store: Store) -> FleetDocument:
    """Return the document of the fleet with this id, or of the `latest`.

    Raise `UnknownRunError` or `RunFileError` if it is missing or unreadable.
    """
    record = store.fleets.find(name)
    return fleet_matrix.compose(record, read_run_documents(record, store))
