"""Write the document of a run to a file, in the format that the file's extension names."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from advisor.domain.answer import Answer, encode
from advisor.errors import NotWritableError
from advisor.report.sweeps import sweep_text
from advisor.report.sweeps.sweep_document import SweepDocument
from advisor.system.atomic_write import write_atomically
from advisor.system.terminal_text import escape_control_chars

#: Returns the script of the recommended arm, None without one.
ScriptMaker = Callable[[], str | None]


def write_document(
    document: Answer, file: pathlib.Path, make_script: ScriptMaker = lambda: None
) -> None:
    """Write the document atomically; the extension of `file` must be a key of `RENDERERS`.

    An HTML page contains the script of the recommended arm, as returned by `make_script`. Raise
    `NotWritableError` if the file cannot be written.
    """
    write_text(file, RENDERERS[file.suffix.lower()](document, make_script))


def write_sweep(document: SweepDocument, file: pathlib.Path) -> None:
    """Write the document of a sweep; the extension of `file` must be a key of `SWEEP_RENDERERS`.

    Raise `NotWritableError` if the file cannot be written.
    """
    write_text(file, SWEEP_RENDERERS[file.suffix.lower()](document))


def write_text(file: pathlib.Path, text: str) -> None:
    """Write a text atomically, with control characters escaped; raise `NotWritableError`."""
    try:
        write_atomically(file, escape_control_chars(text).encode())
    except OSError as problem:
        raise NotWritableError(
            f"{file} cannot be written: {problem.strerror}", "name another file"
        ) from problem


def _html(document: Answer, make_script: ScriptMaker) -> str:
    from advisor.report import page  # noqa: PLC0415 - template engines import slowly

    return page.render(document, make_script())


def _markdown(document: Answer, _: ScriptMaker) -> str:
    from advisor.report import markdown  # noqa: PLC0415 - as above

    return markdown.render(document)


def _csv(document: Answer, _: ScriptMaker) -> str:
    from advisor.report.exports import csv_rows  # noqa: PLC0415 - as above

    return csv_rows.render([document])


def _sweep_html(document: SweepDocument) -> str:
    from advisor.report.sweeps import sweep_page  # noqa: PLC0415 - as above

    return sweep_page.render(document)


#: Renders a document as text, by file extension.
RENDERERS: dict[str, Callable[[Answer, ScriptMaker], str]] = {
    ".html": _html,
    ".md": _markdown,
    ".csv": _csv,
    ".json": lambda document, _: encode(document),
}
#: The same for the document of a sweep.
SWEEP_RENDERERS: dict[str, Callable[[SweepDocument], str]] = {
    ".html": _sweep_html,
    ".md": sweep_text.render_markdown,
    ".json": encode,
}
