"""Render kept sweeps over lengths as Markdown: the answer for the mix, and each length."""

from __future__ import annotations

import msgspec
from stacks.kept_runs import EVIDENCE
from stacks.run_tables import EVIDENCE_LINK

from advisor.report.formatting.tabular import markdown_table
from advisor.report.sweeps import sweep_text
from advisor.report.sweeps.sweep_document import SweepDocument

#: Folder of the kept sweeps below the evidence.
FOLDER = "sweeps"


def read_sweep(file: str) -> SweepDocument:
    return msgspec.json.decode((EVIDENCE / FOLDER / file).read_bytes(), type=SweepDocument)


def sweep_section(file: str) -> list[str]:
    """Return the answer for the mix of a sweep, its tables and what its lengths lack."""
    document = read_sweep(file)
    link = f"[kept sweep]({EVIDENCE_LINK}/{FOLDER}/{file})"
    head = (
        f"One command for several lengths (`--input-tokens`, `--length-mix`): `{document.model}`, "
        f"task {document.task}, {document.dtype}, on an {document.device_name}, "
        f"{document.created[:10]} ({link}). {' '.join(sweep_text.answer(document))}"
    )
    tables = [
        line
        for title, (names, *rows), columns, _ in sweep_text.tables(document)
        for line in (f"{title}:", "", *markdown_table(names, rows, text_columns=columns), "")
    ]
    notes = [*sweep_text.notes(document), *sweep_text.missing_lines(document)]
    return [head, "", *tables, *(f"- {note}" for note in notes), ""]
