"""Where a command's data goes: a file, or standard output."""

from __future__ import annotations

import pathlib

import typer

from advisor.errors import OutputFileError

#: Stands for standard output.
STANDARD_OUTPUT = "-"


def write(output: str, text: str) -> None:
    """Write text to a file, or to standard output; raise `OutputFileError` where that cannot be."""
    if output == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
        return
    try:
        pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(output).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise OutputFileError(f"{output} cannot be written: {problem.strerror}", "name another place with --output") from problem
