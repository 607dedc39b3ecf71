"""The document of an answer that rests on a run made elsewhere: that run's document, with its origin, and nothing said to be measured."""

from __future__ import annotations

import msgspec

from advisor.pipeline.imported_answer import Imported
from advisor.report.document import RunDocument
from advisor.report.document import compose as compose_run


def compose(found: Imported, again: str) -> RunDocument:
    """Return the run's document with every figure marked as imported; `again` is the command that asks for it."""
    document = compose_run(found.decision)
    entries = tuple(
        msgspec.structs.replace(entry, evidence="imported")
        if entry.evidence == "measured"
        else entry
        for entry in document.workflows
    )
    return msgspec.structs.replace(
        document, workflows=entries, provenance=found.provenance, again=again
    )
