"""The script a worker starts as: `python worker.py DIRECTORY`; makes `probes` importable and hands over to the harness.

It runs in an interpreter that is not the advisor's, so it must not change what that interpreter
imports: the package is registered by file location instead of through `sys.path`, and the folder of
this script is taken off the path (a module here must never shadow one of the stack's). Processes
that a stack starts with `spawn` import this file again as `__mp_main__` and need the registration
too.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - `pathlib` may only be imported once the path is clean
# Before any other import: a module in this folder must not be taken for one of the standard library
# that has its name.
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != HERE]

import faulthandler  # noqa: E402
import importlib.util  # noqa: E402
import pathlib  # noqa: E402


def register_package() -> None:
    """Make `probes` importable from this folder without touching `sys.path`."""
    spec = importlib.util.spec_from_file_location(
        "probes", pathlib.Path(HERE, "__init__.py"), submodule_search_locations=[HERE]
    )
    if spec is None or spec.loader is None:
        message = f"cannot load the worker's own code from {HERE}"
        raise ImportError(message)
    package = importlib.util.module_from_spec(spec)
    sys.modules["probes"] = package
    spec.loader.exec_module(package)


def take_doorbell() -> int:
    """Return a private copy of standard output and send whatever prints from now on to the log, which is standard error."""
    doorbell = os.dup(1)
    os.dup2(2, 1)
    return doorbell


if __name__ == "__main__":
    # Before anything heavy is imported: the guard is a fork of this process and stays as small as
    # it is now.
    bell = take_doorbell()
    register_package()
    from probes.runtime import watchdog

    watchdog.guard(bell)
    # A crash in a stack's own code leaves the Python line that called it in the log.
    faulthandler.enable()
    from probes.runtime import harness

    harness.run(pathlib.Path(sys.argv[1]), bell)
elif __name__ == "__mp_main__":
    register_package()
