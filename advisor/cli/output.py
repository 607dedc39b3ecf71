"""Where a command's data goes: a file, or standard output, where text of others must not steer the terminal."""

from __future__ import annotations

import pathlib
import sys

import typer

from advisor.errors import OutputFileError
from advisor.system.terminal_text import escape_control_chars

#: Stands for standard output.
STANDARD_OUTPUT = "-"


def put(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text or JSON; what in it would steer the terminal is spelt out."""
    typer.echo(
        escape_control_chars(text.decode() if isinstance(text, bytes) else str(text)),
        err=err,
        nl=nl,
    )


def write(output: str, content: str | bytes) -> None:
    """Write text, or bytes as they are, to a file or to standard output; raise `OutputFileError` where that cannot be."""
    if output == STANDARD_OUTPUT and isinstance(content, str):
        put(content, nl=False)
        return
    raw = content.encode() if isinstance(content, str) else content
    if output == STANDARD_OUTPUT:
        # A program reads it, and its checksum is of what stands there.
        sys.stdout.buffer.write(raw)
        sys.stdout.flush()
        return
    try:
        pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(output).write_bytes(raw)
    except OSError as problem:
        raise OutputFileError(
            f"{output} cannot be written: {problem.strerror}", "name another place with --output"
        ) from problem
