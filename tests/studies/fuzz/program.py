"""Run the command line within this process, and say whether it ended as documented."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import signal
import sys
from collections.abc import Iterator, Mapping

from advisor import cli
from advisor.cli import execution
from advisor.text_format import SUSPICIOUS, escape_char

#: Documented exit codes, and 130 and above for signals.
EXIT_CODES = {0, 1, 2, 3, 4}


class DefectError(AssertionError):
    """The program ended in a way that its documentation does not allow."""


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def run(arguments: list[str], home: pathlib.Path) -> tuple[int, str, str]:
    """Return the exit code and the outputs of a command on the runs in `home`.

    Raise `DefectError` for a traceback, an undocumented exit code, an error without a next step,
    and for control characters in the output.
    """
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    handlers = {number: signal.getsignal(number) for number in execution.ENDING_SIGNALS}
    before = sys.stdout, sys.stderr
    variables = {"P3_ADVISOR_HOME": str(home), "XDG_CONFIG_HOME": str(home / "settings")}
    code: object = 0
    try:
        sys.stdout, sys.stderr = streams
        with environment(variables):
            cli.main(arguments)
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException as problem:
        message = f"{type(problem).__name__}: {problem}"
        raise DefectError(message) from problem
    finally:
        sys.stdout, sys.stderr = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    output, errors = (_text(stream) for stream in streams)
    _check(code, arguments, output, errors)
    assert isinstance(code, int)
    return code, output, errors


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    content = stream.detach()
    assert isinstance(content, io.BytesIO)
    return content.getvalue().decode("utf-8", "surrogateescape")


def _check(code: object, arguments: list[str], output: str, errors: str) -> None:
    if code not in EXIT_CODES:
        raise DefectError(f"exit code {code!r}")
    if "Traceback" in errors:
        raise DefectError(errors)
    # Typer repeats the user's own words in its usage errors; an exported run has a checksum.
    shown_errors = "" if "Error:" in errors else errors
    shown_output = "" if arguments[:1] == ["export-run"] else output
    for text in (shown_errors, shown_output):
        hidden = [char for char in SUSPICIOUS.findall(text) if escape_char(char) != char]
        if hidden:
            raise DefectError(f"control characters {hidden[:5]} in the output")
    # Typer prints its own usage errors; all others are ours and have a next step.
    if code in {2, 3, 4} and not {"Usage:", "Error:", "next:"} & {*errors.split()}:
        raise DefectError(f"no next step: {errors}")
