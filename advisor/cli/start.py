"""Start the program; an interrupt before its handlers are set ends it without a traceback."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    try:
        from advisor.cli import command_line

        command_line.main(arguments)
    except KeyboardInterrupt:  # while modules are imported
        sys.exit(128 + signal.SIGINT)
