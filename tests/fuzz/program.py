"""Run the command line within this process, and say whether it ended as documented."""

from __future__ import annotations

import io
import os
import pathlib
import signal
import sys
from unittest import mock

from advisor import cli
from advisor.cli import interruption
from advisor.domain.text import SUSPICIOUS, escape_char

EXIT_CODES = {0, 1, 2, 3, 4}
#: Commands that only read runs.
READING = (
    ["show"],
    ["show", "--json"],
    ["explain"],
    ["recipe"],
    ["history", "--json"],
    ["decide", "--preset", "serving"],
    ["report", "-f", "html,md,csv,json"],
    ["export-run", "-o", "-"],
    ["compare", "latest", "latest"],
)


def run(arguments: list[str], home: pathlib.Path) -> tuple[int, str, str]:
    """Return the exit code and the outputs of a command on the runs in `home`.

    A traceback, an undocumented exit code, an error without a next step and control characters in
    the output are defects.
    """
    contents = [io.BytesIO(), io.BytesIO()]
    streams = [io.TextIOWrapper(each, encoding="utf-8") for each in contents]
    handlers = {number: signal.getsignal(number) for number in interruption.ENDING_SIGNALS}
    before = sys.stdout, sys.stderr
    variables = {"P3_ADVISOR_HOME": str(home), "XDG_CONFIG_HOME": str(home / "settings")}
    code: object = 0
    try:
        sys.stdout, sys.stderr = streams
        with mock.patch.dict(os.environ, variables):
            cli.main(arguments)
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.stdout, sys.stderr = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for stream in streams:
        stream.flush()
    output, errors = (each.getvalue().decode("utf-8", "surrogateescape") for each in contents)
    assert code in EXIT_CODES
    assert "Traceback" not in errors
    # Typer repeats the user's own words in its usage errors; an exported run has a checksum.
    shown_errors = "" if "Error:" in errors else errors
    shown_output = "" if arguments[:1] == ["export-run"] else output
    for text in (shown_errors, shown_output):
        assert not [char for char in SUSPICIOUS.findall(text) if escape_char(char) != char]
    # Typer prints its own usage errors; all others are ours and have a next step.
    assert code in {0, 1} or {"Usage:", "Error:", "next:"} & {*errors.split()}, errors
    assert isinstance(code, int)
    return code, output, errors
