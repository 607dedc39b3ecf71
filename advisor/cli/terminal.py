"""Whether there is a terminal to draw on, and what starts there."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

#: Flags that only the terminal program has.
TERMINAL_FLAGS = ("--replay", "--speed", "--plain", "--accessible", "--ascii", "--theme", "--no-color", "--no-mouse", "--tui")
#: Flags that ask for data on standard output.
DATA_FLAGS = ("--json", "--jsonl")


def is_terminal(environment: Mapping[str, str]) -> bool:
    """Say whether somebody sits at a terminal that can be drawn on."""
    able = environment.get("TERM", "") not in {"", "dumb"} and environment.get("CI", "").lower() not in {"1", "true"}
    return able and all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def wants_terminal(given: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Say whether options without a command are meant for the terminal program."""
    names = [word.partition("=")[0] for word in given]
    if any(name in TERMINAL_FLAGS for name in names):
        return True
    return is_terminal(environment) and not any(name in DATA_FLAGS for name in names)
