"""A decision as the document that every presenter starts from, and as a file of the kind that its ending says."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from advisor.domain.run_state import RunState
from advisor.errors import NotWritableError
from advisor.pipeline.decision import Decision
from advisor.report.document import RunDocument, compose, encode


def document_of(decision: Decision) -> RunDocument:
    """Return the document."""
    return compose(decision)


def write(document: RunDocument, file: pathlib.Path, state: RunState | None = None) -> None:
    """Write the file beside its place and put it there, with the recipe where there is a `state`; raise `NotWritableError`."""
    text = MAKERS[file.suffix.lower()](document, state)
    beside = file.with_name(f".{file.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    except OSError as problem:
        raise NotWritableError(
            f"{file} cannot be written: {problem.strerror}", "name another file"
        ) from problem


def _page(document: RunDocument, state: RunState | None) -> str:
    from advisor.report import page, recipe  # noqa: PLC0415 - templates are slow to import, and most sessions export nothing

    return page.render(document, recipe.recommended(document, state) if state is not None else None)


def _markdown(document: RunDocument, _: RunState | None) -> str:
    from advisor.report import markdown  # noqa: PLC0415 - as above

    return markdown.render(document)


def _table(document: RunDocument, _: RunState | None) -> str:
    from advisor.report import csv_rows  # noqa: PLC0415 - as above

    return csv_rows.render([document])


#: By the ending of a file's name.
MAKERS: dict[str, Callable[[RunDocument, RunState | None], str]] = {
    ".html": _page,
    ".md": _markdown,
    ".csv": _table,
    ".json": lambda document, _: encode(document),
}
