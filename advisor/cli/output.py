"""Where a command's data goes: a file, or standard output, where text of others must not steer the terminal."""

from __future__ import annotations

import pathlib

import typer

from advisor.errors import OutputFileError
from advisor.signs import spell_out

#: Stands for standard output.
STANDARD_OUTPUT = "-"


def put(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text or JSON; what in it would steer the terminal is spelt out."""
    typer.echo(spell_out(text.decode() if isinstance(text, bytes) else str(text)), err=err, nl=nl)


def write(output: str, text: str) -> None:
    """Write text to a file, or to standard output; raise `OutputFileError` where that cannot be."""
    if output == STANDARD_OUTPUT:
        put(text, nl=False)
        return
    try:
        pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(output).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise OutputFileError(f"{output} cannot be written: {problem.strerror}", "name another place with --output") from problem
