"""Write a command's output to a file or to standard output."""

from __future__ import annotations

import pathlib
import sys

import typer

from advisor.errors import OutputFileError
from advisor.system.terminal_text import escape_control_chars

#: Stands for standard output.
STANDARD_OUTPUT = "-"


def print_text(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text or JSON with its control characters escaped."""
    typer.echo(
        escape_control_chars(text.decode() if isinstance(text, bytes) else str(text)),
        err=err,
        nl=nl,
    )


def write_output(output: str, content: str | bytes) -> None:
    """Write text with its control characters escaped, or unchanged bytes, to a file or to stdout.

    Raise `OutputFileError` when the file cannot be written.
    """
    if output == STANDARD_OUTPUT and isinstance(content, str):
        print_text(content, nl=False)
        return
    raw = escape_control_chars(content).encode() if isinstance(content, str) else content
    if output == STANDARD_OUTPUT:
        # A program reads it. It must not be escaped, because the file has a checksum.
        sys.stdout.buffer.write(raw)
        sys.stdout.flush()
        return
    try:
        pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(output).write_bytes(raw)
    except OSError as problem:
        raise OutputFileError(
            f"{output} cannot be written: {problem.strerror}", "name another file with --output"
        ) from problem
