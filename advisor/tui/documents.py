"""A decision as the document that every presenter starts from, and as a file."""

from __future__ import annotations

import pathlib

from advisor.errors import NotWritableError
from advisor.pipeline import Decision
from advisor.report.document import RunDocument, compose, encode


def document_of(decision: Decision) -> RunDocument:
    """Return the document."""
    return compose(decision.header, decision.state, decision.results, decision.scored, decision.recommendation, decision.problem)


def write(decision: Decision, file: pathlib.Path) -> None:
    """Write the document beside `file` and put it in its place; raise `NotWritableError`."""
    beside = file.with_name(f".{file.name}.part")
    try:
        beside.write_text(encode(document_of(decision)), encoding="utf-8")
        beside.replace(file)
    except OSError as problem:
        raise NotWritableError(f"{file} cannot be written: {problem.strerror}", "name another file") from problem
