"""A decision as the document that every presenter starts from, and as a file of the kind that its ending says."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from advisor.errors import NotWritableError
from advisor.pipeline import Decision
from advisor.report.document import RunDocument, compose, encode


def document_of(decision: Decision) -> RunDocument:
    """Return the document."""
    return compose(decision)


def write(decision: Decision, file: pathlib.Path) -> None:
    """Write the file beside its place and put it there; raise `NotWritableError`."""
    text = MAKERS[file.suffix.lower()](decision, document_of(decision))
    beside = file.with_name(f".{file.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    except OSError as problem:
        raise NotWritableError(f"{file} cannot be written: {problem.strerror}", "name another file") from problem


def _page(decision: Decision, document: RunDocument) -> str:
    from advisor.report import page, recipe  # noqa: PLC0415 - templates are slow to import, and most sessions export nothing

    return page.render(document, recipe.recommended(document, decision.state))


def _markdown(_: Decision, document: RunDocument) -> str:
    from advisor.report import markdown  # noqa: PLC0415 - as above

    return markdown.render(document)


def _table(_: Decision, document: RunDocument) -> str:
    from advisor.report import tidy  # noqa: PLC0415 - as above

    return tidy.render([document])


#: By the ending of a file's name.
MAKERS: dict[str, Callable[[Decision, RunDocument], str]] = {
    ".html": _page,
    ".md": _markdown,
    ".csv": _table,
    ".json": lambda _, document: encode(document),
}
