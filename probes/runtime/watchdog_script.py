"""The script that a recipe is run below: `python guarded.py SCRIPT ARGUMENTS`; leaves a guard behind, and becomes the script.

The advisor starts it with an interpreter that is not its own, isolated and without site packages;
the script has them again.
"""

from __future__ import annotations

import os
import sys

# Last: nothing beside this package is taken for a module of the standard library. It does not
# outlive the guard's beginning.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))  # noqa: PTH120 - as in `worker`

from probes.runtime import watchdog

if __name__ == "__main__":
    watchdog.guard(1)
    # The guard alone listens to standard input: a recipe that asks for something shall not wait for
    # an answer.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606 - an argument list, no shell
