"""Compose the JSON document of an answer that uses a run made on another machine."""

from __future__ import annotations

import msgspec

from advisor.pipeline.answers.imported_answer import ImportedAnswer
from advisor.report.documents import measured_document
from advisor.report.documents.document import RunDocument


def compose(imported: ImportedAnswer, rerun_command: str) -> RunDocument:
    """Return the run's document with its provenance and with measured figures marked imported."""
    document = measured_document.compose(imported.decision)
    entries = tuple(
        msgspec.structs.replace(entry, evidence="imported")
        if entry.evidence == "measured"
        else entry
        for entry in document.workflows
    )
    return msgspec.structs.replace(
        document,
        workflows=entries,
        provenance=imported.provenance,
        rerun_command=rerun_command,
    )
