"""Run a program under a watchdog: `python watchdog_script.py SCRIPT ARGUMENTS`.

The advisor starts this with the program's interpreter, isolated and without site packages; the
script has them again. The process forks the watchdog and then becomes the script.
"""

from __future__ import annotations

import os
import sys

# Last in the path: no module next to this package shadows one of the standard library. The path is
# gone when the process becomes the script.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))  # noqa: PTH120 - as in `worker`

from probes import watchdog

if __name__ == "__main__":
    watchdog.start(1)
    # Only the watchdog reads standard input: a program that asks for input must not wait for it.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606 - an argument list, no shell
